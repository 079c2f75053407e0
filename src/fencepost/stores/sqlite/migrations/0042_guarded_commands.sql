-- One small row for each guarded command: when, under which lock, how it ended, and how many were refused meanwhile.
CREATE TABLE guarded_command (
    id         TEXT PRIMARY KEY,  -- the run's
    tenant     TEXT NOT NULL,
    resource   TEXT NOT NULL,
    fence      INTEGER NOT NULL,
    lease_id   TEXT NOT NULL,
    label      TEXT NOT NULL,
    host       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'lost')),
    started_us INTEGER NOT NULL,
    ended_us   INTEGER,
    exit_code  INTEGER,
    refused    INTEGER NOT NULL DEFAULT 0,
    refused_us INTEGER  -- the last time
) STRICT, WITHOUT ROWID;

CREATE INDEX guarded_command_by_age ON guarded_command (tenant, started_us, id);
CREATE INDEX guarded_command_of_resource ON guarded_command (tenant, resource, started_us);

-- One whose lease is gone without a word of its end is lost, whoever has noticed it.
CREATE VIEW guarded_command_now AS
SELECT id, tenant, resource, fence, label, host,
       CASE WHEN state = 'running'
             AND NOT EXISTS (SELECT 1 FROM lease
                              WHERE lease.id = guarded_command.lease_id AND lease.state = 'held')
            THEN 'lost' ELSE state END AS state,
       started_us, ended_us, exit_code, refused, refused_us
  FROM guarded_command;
