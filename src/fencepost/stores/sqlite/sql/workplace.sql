-- :name keep_workplaces
INSERT INTO workplace (id, tenant, project, resource, path, slots, isolated,
                       host, machine, boot, pid_namespace, pid, pid_started, stale_boot, stale_ns)
SELECT :id, value ->> 'tenant', value ->> 'project', value ->> 'resource', value ->> 'path', value ->> 'slots',
       value ->> 'isolated', :host, :machine, :boot, :pid_namespace, :pid, :pid_started,
       boot_id(), awake_ns() + :ttl_ms * 1000000
  FROM json_each(:places)
 WHERE true
ON CONFLICT (tenant, project, id) DO UPDATE
   SET resource = excluded.resource, path = excluded.path, slots = excluded.slots, isolated = excluded.isolated,
       stale_boot = excluded.stale_boot, stale_ns = excluded.stale_ns

-- :name drop_workplaces
-- What this worker does not name any more, and what others left behind.
DELETE FROM workplace
 WHERE (id = :id AND NOT EXISTS (SELECT 1 FROM json_each(:places) AS one
                                  WHERE one.value ->> 'tenant' = workplace.tenant
                                    AND one.value ->> 'project' = workplace.project))
    OR stale_boot <> boot_id() OR stale_ns <= awake_ns()

-- :name project_line
-- The runs that could go now but for the directory, each once for every worker that can reach it, in their order.
SELECT run.rank, run.place_us, run.id, run.tenant, run.agent, run.waiting_us, place.id,
       place.host, place.machine, place.boot, place.pid_namespace, place.pid, place.pid_started
  FROM workplace_fact AS place
  JOIN run ON run.tenant = place.tenant AND run.project = place.project AND run.state = 'ready'
 WHERE place.resource = :resource AND NOT place.stale AND NOT (place.isolated AND run.trigger <> 'manual')
   AND run.place_us <= wall_us() AND run.ready_us <= wall_us()
   AND NOT EXISTS (SELECT 1 FROM pause
                    WHERE pause.tenant = run.tenant AND pause.schedule = ''
                      AND since_us <= wall_us() AND until_us > wall_us())
   AND NOT EXISTS (SELECT 1 FROM json_each(run.resources) AS mine
                     JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                     JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
   AND (run.resources NOT LIKE '%"key:%'
        OR NOT EXISTS (SELECT 1 FROM json_each(run.resources) AS pool
                        WHERE pool.value ->> 2 <= (SELECT count(*) FROM resource
                                                     JOIN lease_fact ON lease_fact.id = resource.lease_id
                                                                    AND NOT lease_fact.lost
                                                    WHERE resource.tenant = pool.value ->> 0
                                                      AND resource.name >= pool.value ->> 1
                                                      AND resource.name < (pool.value ->> 1) || '0'
                                                      AND (resource.name = pool.value ->> 1
                                                           OR resource.name > (pool.value ->> 1) || '/')
                                                      AND lease_fact.remaining_ns > 0)))
   AND (run.schedule IS NULL
        OR run.lease_max > (SELECT count(*) FROM run AS other INDEXED BY run_live
                              JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                             WHERE other.tenant = run.tenant AND other.schedule = run.schedule
                               AND other.state = 'running' AND other.state IN ('ready', 'running')
                               AND lease_fact.remaining_ns > 0))
 ORDER BY run.rank, run.place_us, run.id
 LIMIT :limit
