-- The ledger: effects recorded once, by key.

CREATE TABLE ledger (
    tenant       TEXT NOT NULL,
    scope        TEXT NOT NULL,  -- '': the whole tenant; 'run:ID': the attempts of one run
    key          TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    lease_id     TEXT NOT NULL,  -- the lease that it was begun under
    fence        INTEGER NOT NULL,
    call         TEXT NOT NULL,  -- which call began it: only that one may end it
    state        TEXT NOT NULL CHECK (state IN ('in_progress', 'completed')),
    answer       TEXT,           -- JSON
    doubt        TEXT,           -- why the caller cannot tell whether it took place
    begun_us     INTEGER NOT NULL,
    completed_us INTEGER,
    resolved_by  TEXT,           -- the person or probe that ended an ambiguity
    asked_fence  INTEGER NOT NULL,  -- the newest fence that began it or was answered from it
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_by_age ON ledger (tenant, begun_us);
CREATE INDEX ledger_open ON ledger (tenant, begun_us) WHERE state = 'in_progress';

CREATE VIEW ledger_fact AS
SELECT ledger.tenant, scope, key, ledger.run_id, lease_id, ledger.fence, call, ledger.state, answer, doubt, begun_us,
       completed_us, resolved_by, asked_fence,
       lease_fact.id IS NOT NULL AND NOT lease_fact.lost AND lease_fact.remaining_ns > 0 AS lease_live
  FROM ledger
  LEFT JOIN lease_fact ON lease_fact.id = ledger.lease_id AND lease_fact.fence = ledger.fence;
