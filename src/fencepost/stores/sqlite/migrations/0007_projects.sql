-- Projects: which directory a run works in, and which workers can reach it.

ALTER TABLE run ADD COLUMN project TEXT;  -- its name in the configuration; each worker knows which directory that is

UPDATE run SET project = manifest ->> 'project' WHERE state IN ('ready', 'running');

CREATE INDEX run_of_project ON run (tenant, project, rank, place_us, id) WHERE state = 'ready' AND project IS NOT NULL;

-- A worker says here which projects it resolves, and to what. Runs of a project without a living worker stand in
-- nobody's way.
CREATE TABLE workplace (
    id            TEXT NOT NULL,  -- of the worker: a new one each time it starts
    tenant        TEXT NOT NULL,
    project       TEXT NOT NULL,
    resource      TEXT NOT NULL,  -- the directory, by its identity
    path          TEXT NOT NULL,
    slots         INTEGER NOT NULL,
    isolated      INTEGER NOT NULL CHECK (isolated IN (0, 1)),
    host          TEXT NOT NULL,
    machine       TEXT NOT NULL,
    boot          TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    pid_started   TEXT NOT NULL,
    stale_boot    TEXT NOT NULL,
    stale_ns      INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX workplace_by_resource ON workplace (resource);

CREATE VIEW workplace_fact AS
SELECT id, tenant, project, resource, path, slots, isolated,
       host, machine, boot, pid_namespace, pid, pid_started,
       stale_boot <> boot_id() OR stale_ns <= awake_ns() AS stale
  FROM workplace;
