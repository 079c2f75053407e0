-- The queue in narrow tables of its own. A run's row changes twice in its life, and as long as its state stood in the
-- conditions of indexes, every change wrote into all of them. Now no index knows what changes: a run is rewritten in
-- place (HOT), and what waits and what runs is found here.

-- How often the row was written by a statement that keeps the tables below itself, because it is in a hurry. For all
-- others, those of older programs too, the triggers below do it.
ALTER TABLE fencepost.run ADD COLUMN kept bigint;

CREATE TABLE fencepost.ready (
    in_process boolean NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    rank       bigint NOT NULL,
    place_us   bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    ready_us   bigint NOT NULL,
    is_later   boolean NOT NULL,          -- it was not ready when it came: only these can become ready by waiting
    is_fresh   boolean NOT NULL,          -- it was never begun
    give_up_us bigint,
    agent      text COLLATE "C" NOT NULL,
    schedule   text COLLATE "C",
    project    text COLLATE "C",
    PRIMARY KEY (in_process, tenant, rank, place_us, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ready_later ON fencepost.ready (ready_us) WHERE is_later;
CREATE INDEX ready_overdue ON fencepost.ready (give_up_us) WHERE is_fresh AND give_up_us IS NOT NULL;
CREATE INDEX ready_of_schedule ON fencepost.ready (tenant, schedule) WHERE schedule IS NOT NULL;
CREATE INDEX ready_of_agent ON fencepost.ready (tenant, agent) WHERE schedule IS NULL AND is_fresh;
CREATE INDEX ready_of_project ON fencepost.ready (tenant, project, rank, place_us, id) WHERE project IS NOT NULL;

CREATE TABLE fencepost.running (
    lease_id text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    schedule text COLLATE "C",
    PRIMARY KEY (lease_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX running_of_schedule ON fencepost.running (tenant, schedule) WHERE schedule IS NOT NULL;

-- When each tenant was served last, by the fence of a grant. Whoever finds the row taken leaves it: somebody else is
-- serving the tenant at this very moment.
CREATE TABLE fencepost.served (
    tenant text COLLATE "C" PRIMARY KEY,
    fence  bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION fencepost.note_served(served_tenant text, served_fence bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM fencepost.served WHERE tenant = served_tenant) THEN
        INSERT INTO fencepost.served (tenant, fence) VALUES (served_tenant, served_fence) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE fencepost.served SET fence = served_fence
     WHERE fence < served_fence
       AND tenant = (SELECT tenant FROM fencepost.served WHERE tenant = served_tenant FOR UPDATE SKIP LOCKED);
END
$$;

CREATE FUNCTION fencepost.keep_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.state = 'ready' THEN
        DELETE FROM fencepost.ready
         WHERE in_process = OLD.in_process AND tenant = OLD.tenant AND rank = OLD.rank AND place_us = OLD.place_us
           AND id = OLD.id;
    ELSIF TG_OP <> 'INSERT' AND OLD.state = 'running' THEN
        DELETE FROM fencepost.running WHERE lease_id = coalesce(OLD.lease_id, '') AND id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.state = 'ready' THEN
        INSERT INTO fencepost.ready (in_process, tenant, rank, place_us, id, ready_us, is_later, is_fresh, give_up_us,
                                     agent, schedule, project)
        VALUES (NEW.in_process, NEW.tenant, NEW.rank, NEW.place_us, NEW.id, NEW.ready_us,
                TG_OP = 'UPDATE' OR NEW.ready_us > NEW.created_us, NEW.started_us IS NULL, NEW.give_up_us,
                NEW.agent, NEW.schedule, NEW.project);
    ELSIF TG_OP <> 'DELETE' AND NEW.state = 'running' THEN
        INSERT INTO fencepost.running (lease_id, id, tenant, schedule)
        VALUES (coalesce(NEW.lease_id, ''), NEW.id, NEW.tenant, NEW.schedule);
        IF NEW.fence IS NOT NULL THEN
            PERFORM fencepost.note_served(NEW.tenant, NEW.fence);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER run_enters AFTER INSERT ON fencepost.run FOR EACH ROW
  WHEN (NEW.kept IS NULL AND NEW.state IN ('ready', 'running'))
  EXECUTE FUNCTION fencepost.keep_queue();

CREATE TRIGGER run_moves AFTER UPDATE ON fencepost.run FOR EACH ROW
  WHEN (NEW.kept IS NOT DISTINCT FROM OLD.kept
        AND (OLD.state <> NEW.state
             OR (NEW.state = 'ready'
                 AND (OLD.place_us <> NEW.place_us OR OLD.ready_us <> NEW.ready_us OR OLD.rank <> NEW.rank
                      OR OLD.give_up_us IS DISTINCT FROM NEW.give_up_us OR OLD.project IS DISTINCT FROM NEW.project
                      OR OLD.in_process <> NEW.in_process OR OLD.started_us IS DISTINCT FROM NEW.started_us))
             OR (NEW.state = 'running' AND OLD.lease_id IS DISTINCT FROM NEW.lease_id)))
  EXECUTE FUNCTION fencepost.keep_queue();

CREATE TRIGGER run_leaves AFTER DELETE ON fencepost.run FOR EACH ROW
  WHEN (OLD.state IN ('ready', 'running'))
  EXECUTE FUNCTION fencepost.keep_queue();

INSERT INTO fencepost.ready (in_process, tenant, rank, place_us, id, ready_us, is_later, is_fresh, give_up_us,
                             agent, schedule, project)
SELECT in_process, tenant, rank, place_us, id, ready_us, true, started_us IS NULL, give_up_us, agent, schedule, project
  FROM fencepost.run WHERE state = 'ready';

INSERT INTO fencepost.running (lease_id, id, tenant, schedule)
SELECT coalesce(lease_id, ''), id, tenant, schedule FROM fencepost.run WHERE state = 'running';

INSERT INTO fencepost.served (tenant, fence)
SELECT tenant, max(fence) FROM fencepost.run WHERE fence IS NOT NULL GROUP BY tenant;

-- An older program finds what it looks for without these too, if not as fast.
DROP INDEX fencepost.run_ready, fencepost.run_soonest, fencepost.run_overdue, fencepost.run_live, fencepost.run_running,
           fencepost.run_served, fencepost.run_of_project, fencepost.run_apart, fencepost.run_lane;

-- An attempt is written twice: when it begins and when it ends.
ALTER TABLE fencepost.attempt SET (fillfactor = 55);
