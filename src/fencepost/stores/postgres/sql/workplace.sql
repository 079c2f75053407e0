-- :name keep_workplaces
INSERT INTO fencepost.workplace (id, tenant, project, resource, path, slots, isolated,
                                 host, machine, boot, pid_namespace, pid, pid_started, stale_us)
SELECT %(id)s, tenant, project, resource, path, slots, isolated,
       %(host)s, %(machine)s, %(boot)s, %(pid_namespace)s, %(pid)s, %(pid_started)s,
       fencepost.clock_us() + %(ttl_ms)s::bigint * 1000
  FROM jsonb_to_recordset(%(places)s::jsonb) AS one (
       tenant text, project text, resource text, path text, slots bigint, isolated boolean)
ON CONFLICT (tenant, project, id) DO UPDATE
   SET resource = excluded.resource, path = excluded.path, slots = excluded.slots, isolated = excluded.isolated,
       stale_us = excluded.stale_us

-- :name drop_workplaces
-- What this worker does not name any more, and what other workers left behind; rows that another transaction has locked can wait.
DELETE FROM fencepost.workplace
 WHERE (tenant, project, id) IN (
       SELECT tenant, project, id FROM fencepost.workplace AS old
        WHERE (old.id = %(id)s AND NOT EXISTS (
                   SELECT 1 FROM jsonb_to_recordset(%(places)s::jsonb) AS one (tenant text, project text)
                    WHERE one.tenant = old.tenant AND one.project = old.project))
           OR old.stale_us <= fencepost.clock_us()
          FOR UPDATE SKIP LOCKED)

-- :name project_line
-- The runs that could go now but for the directory, each once for every worker that can reach it, in their order.
SELECT run.rank, run.place_us, run.id, run.tenant, run.agent, run.waiting_us, place.id,
       place.host, place.machine, place.boot, place.pid_namespace, place.pid, place.pid_started
  FROM fencepost.workplace_fact AS place
  JOIN fencepost.ready ON ready.tenant = place.tenant AND ready.project = place.project
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = ready.id AND state = 'ready' OFFSET 0) AS run
 WHERE place.resource = %(resource)s AND NOT place.stale AND NOT (place.isolated AND run.trigger <> 'manual')
   AND run.place_us <= (SELECT fencepost.clock_us()) AND run.ready_us <= (SELECT fencepost.clock_us())
   AND NOT EXISTS (SELECT 1 FROM fencepost.pause
                    WHERE pause.tenant = run.tenant AND pause.schedule = ''
                      AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
   AND NOT EXISTS (SELECT 1 FROM fencepost.keys(run.resources) AS mine
                     JOIN fencepost.resource ON resource.tenant = mine.tenant AND resource.name = mine.name
                     JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
   AND (run.resources NOT LIKE '%%"key:%%' OR fencepost.has_slots(run.resources))
   AND (run.schedule IS NULL
        OR run.lease_max > (SELECT count(*) FROM fencepost.running AS other
                              JOIN fencepost.lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                             WHERE other.tenant = run.tenant AND other.schedule = run.schedule
                               AND lease_fact.remaining_ns > 0))
 ORDER BY run.rank, run.place_us, run.id
 LIMIT %(limit)s
