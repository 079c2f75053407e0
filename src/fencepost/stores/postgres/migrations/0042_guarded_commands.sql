-- One small row for each guarded command: when, under which lock, how it ended, and how many were refused meanwhile.
CREATE TABLE fencepost.guarded_command (
    id         text COLLATE "C" PRIMARY KEY,  -- the run's
    tenant     text COLLATE "C" NOT NULL,
    resource   text COLLATE "C" NOT NULL,
    fence      bigint NOT NULL,
    lease_id   text COLLATE "C" NOT NULL,
    label      text COLLATE "C" NOT NULL,
    host       text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'lost')),
    started_us bigint NOT NULL,
    ended_us   bigint,
    exit_code  bigint,
    refused    bigint NOT NULL DEFAULT 0,
    refused_us bigint  -- the last time
);

CREATE INDEX guarded_command_by_age ON fencepost.guarded_command (tenant, started_us, id);
CREATE INDEX guarded_command_of_resource ON fencepost.guarded_command (tenant, resource, started_us);

-- One whose lease is gone without a word of its end is lost, whoever has noticed it.
CREATE VIEW fencepost.guarded_command_now AS
SELECT id, tenant, resource, fence, label, host,
       CASE WHEN state = 'running'
             AND NOT EXISTS (SELECT 1 FROM fencepost.lease
                              WHERE lease.id = guarded_command.lease_id AND lease.state = 'held')
            THEN 'lost' ELSE state END AS state,
       started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command;
