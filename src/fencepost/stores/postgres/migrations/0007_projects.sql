-- Projects: which directory a run works in, and which workers can reach it.

ALTER TABLE fencepost.run ADD COLUMN project text COLLATE "C";  -- its name in the configuration; each worker knows which directory that is

UPDATE fencepost.run SET project = manifest::jsonb ->> 'project' WHERE state IN ('ready', 'running');

CREATE INDEX run_of_project ON fencepost.run (tenant, project, rank, place_us, id) WHERE state = 'ready' AND project IS NOT NULL;

-- A worker says here which projects it resolves, and to what. Runs of a project without a living worker stand in
-- nobody's way.
CREATE TABLE fencepost.workplace (
    id            text COLLATE "C" NOT NULL,  -- of the worker: a new one each time it starts
    tenant        text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    resource      text COLLATE "C" NOT NULL,  -- the directory, by its identity
    path          text NOT NULL,
    slots         bigint NOT NULL,
    isolated      boolean NOT NULL,
    host          text NOT NULL,
    machine       text NOT NULL,
    boot          text NOT NULL,
    pid_namespace text NOT NULL,
    pid           bigint NOT NULL,
    pid_started   text NOT NULL,
    stale_us      bigint NOT NULL,
    PRIMARY KEY (tenant, project, id)
) WITH (fillfactor = 70);

CREATE INDEX workplace_by_resource ON fencepost.workplace (resource);

CREATE VIEW fencepost.workplace_fact AS
SELECT id, tenant, project, resource, path, slots, isolated,
       host, machine, boot, pid_namespace, pid, pid_started,
       stale_us <= fencepost.clock_us() AS stale
  FROM fencepost.workplace;
