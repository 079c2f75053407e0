-- The ledger: effects recorded once, by key.

CREATE TABLE fencepost.ledger (
    tenant       text COLLATE "C" NOT NULL,
    scope        text COLLATE "C" NOT NULL,  -- '': the whole tenant; 'run:ID': the attempts of one run
    key          text COLLATE "C" NOT NULL,
    run_id       text COLLATE "C" NOT NULL,
    lease_id     text COLLATE "C" NOT NULL,  -- the lease that it was begun under
    fence        bigint NOT NULL,
    call         text NOT NULL,  -- which call began it: only that one may end it
    state        text NOT NULL CHECK (state IN ('in_progress', 'completed')),
    answer       text,           -- JSON
    doubt        text,           -- why the caller cannot tell whether it took place
    begun_us     bigint NOT NULL,
    completed_us bigint,
    resolved_by  text,           -- the person or probe that ended an ambiguity
    asked_fence  bigint NOT NULL,  -- the newest fence that began it or was answered from it
    PRIMARY KEY (tenant, scope, key)
) WITH (fillfactor = 80);

CREATE INDEX ledger_by_age ON fencepost.ledger (tenant, begun_us);
CREATE INDEX ledger_open ON fencepost.ledger (tenant, begun_us) WHERE state = 'in_progress';

CREATE VIEW fencepost.ledger_fact AS
SELECT ledger.tenant, scope, key, ledger.run_id, lease_id, ledger.fence, call, ledger.state, answer, doubt, begun_us,
       completed_us, resolved_by, asked_fence,
       lease_fact.id IS NOT NULL AND NOT lease_fact.lost AND lease_fact.remaining_ns > 0 AS lease_live
  FROM fencepost.ledger
  LEFT JOIN fencepost.lease_fact ON lease_fact.id = ledger.lease_id AND lease_fact.fence = ledger.fence;
