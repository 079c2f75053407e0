-- :name lane_next
-- The head of the first of `lane_lines` in one go, as `lane_heads` has it: nearly always there is only one line.
WITH RECURSIVE line (tenant, rank) AS (
    (SELECT tenant, rank FROM fencepost.ready WHERE in_process = true ORDER BY tenant, rank LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.rank
      FROM line
     CROSS JOIN LATERAL (SELECT ready.tenant, ready.rank FROM fencepost.ready
                          WHERE in_process = true AND (ready.tenant, ready.rank) > (line.tenant, line.rank)
                          ORDER BY ready.tenant, ready.rank LIMIT 1) AS next),
first AS (
    SELECT tenant, rank
      FROM (SELECT tenant, rank, (SELECT fence FROM fencepost.served WHERE served.tenant = line.tenant) AS served
              FROM line) AS each_line
     WHERE NOT EXISTS (SELECT 1 FROM fencepost.pause
                        WHERE pause.tenant = each_line.tenant AND schedule = ''
                          AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
     ORDER BY served NULLS FIRST, tenant, rank
     LIMIT 1)
SELECT head.*
  FROM fencepost.ready
 CROSS JOIN LATERAL (
       SELECT * FROM {lane_row}
        WHERE lane_row.id = ready.id AND lane_row.state = 'ready'
          AND (ready.schedule IS NULL
               OR (NOT EXISTS (SELECT 1 FROM fencepost.keys(lane_row.resources) AS mine
                                 JOIN fencepost.resource ON resource.tenant = mine.tenant AND resource.name = mine.name
                                 JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                                WHERE lease_fact.remaining_ns > 0)
                   AND lane_row.lease_max > (SELECT count(*) FROM fencepost.running AS other
                                               JOIN fencepost.lease_fact
                                                 ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                                              WHERE other.tenant = ready.tenant AND other.schedule = ready.schedule
                                                AND lease_fact.remaining_ns > 0)))
          FOR UPDATE SKIP LOCKED) AS head
 WHERE ready.in_process = true AND ready.tenant = (SELECT tenant FROM first) AND ready.rank = (SELECT rank FROM first)
   AND ready.place_us <= (SELECT fencepost.clock_us()) AND ready.ready_us <= (SELECT fencepost.clock_us())
 ORDER BY ready.place_us, ready.id
 LIMIT %(limit)s

-- :name lane_take
-- What `lane_next` would find, leased and begun in the same breath, with the fence that `next_fence` would give. It is for
-- runs that were never leased, of no schedule, that lease only themselves: if one of them is not like that, none is
-- taken, so that no run is passed by. Keeps the queue's own tables itself, and says whether all of them were found there.
WITH RECURSIVE line (tenant, rank) AS (
    (SELECT tenant, rank FROM fencepost.ready WHERE in_process = true ORDER BY tenant, rank LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.rank
      FROM line
     CROSS JOIN LATERAL (SELECT ready.tenant, ready.rank FROM fencepost.ready
                          WHERE in_process = true AND (ready.tenant, ready.rank) > (line.tenant, line.rank)
                          ORDER BY ready.tenant, ready.rank LIMIT 1) AS next),
first AS (
    SELECT tenant, rank
      FROM (SELECT tenant, rank, (SELECT fence FROM fencepost.served WHERE served.tenant = line.tenant) AS served
              FROM line) AS each_line
     WHERE NOT EXISTS (SELECT 1 FROM fencepost.pause
                        WHERE pause.tenant = each_line.tenant AND schedule = ''
                          AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
     ORDER BY served NULLS FIRST, tenant, rank
     LIMIT 1),
now AS MATERIALIZED (
    SELECT us, greatest(us, 1 + (SELECT value::bigint FROM fencepost.meta WHERE key = 'fence_high')) AS fence
      FROM (SELECT fencepost.clock_us() AS us) AS clock),
next AS MATERIALIZED (
    SELECT ready.ctid AS queued, head.*
      FROM fencepost.ready
     CROSS JOIN LATERAL (
           SELECT run.ctid AS place, run.id,
                  run.schedule IS NULL AND run.fence IS NULL AND run.attempt = 0 AND run.manifest = ''
                  AND run.resources = '[[' || %(itself)s::text || ', "run:' || run.id || '"]]' AS is_plain
             FROM fencepost.run
            WHERE run.id = ready.id AND run.state = 'ready' AND run.in_process
              FOR UPDATE SKIP LOCKED) AS head
     WHERE ready.in_process = true AND ready.tenant = (SELECT tenant FROM first) AND ready.rank = (SELECT rank FROM first)
       AND ready.place_us <= (SELECT us FROM now) AND ready.ready_us <= (SELECT us FROM now)
     ORDER BY ready.place_us, ready.id
     LIMIT %(limit)s),
taken AS (
    UPDATE fencepost.run
       SET state = 'running', reason = NULL, attempt = 1, stop = NULL, kept = coalesce(kept, 0) + 1,
           lease_id = %(lease_id)s, fence = now.fence, worker = %(worker)s, started_us = now.us
      FROM next, now
     WHERE run.ctid = next.place AND run.id = next.id AND run.state = 'ready'
       AND NOT EXISTS (SELECT 1 FROM next AS other WHERE NOT other.is_plain)
    RETURNING {taken_run}, run.fence, next.queued),
gone AS (
    DELETE FROM fencepost.ready USING taken WHERE ready.ctid = taken.queued AND ready.id = taken.id RETURNING 1),
begun AS (
    INSERT INTO fencepost.running (lease_id, id, tenant) SELECT %(lease_id)s, id, tenant FROM taken),
served AS (
    SELECT fencepost.note_served(tenant, max(fence)) FROM taken GROUP BY tenant)
SELECT {taken_run}, run.fence,
       (SELECT count(*) FROM gone) = (SELECT count(*) FROM taken), (SELECT count(*) FROM served)
  FROM taken AS run

-- :name lane_lines
-- As `ready_lines`, of the runs that lanes carry out.
WITH RECURSIVE line (tenant, rank) AS (
    (SELECT tenant, rank FROM fencepost.ready WHERE in_process = true ORDER BY tenant, rank LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.rank
      FROM line
     CROSS JOIN LATERAL (SELECT ready.tenant, ready.rank FROM fencepost.ready
                          WHERE in_process = true AND (ready.tenant, ready.rank) > (line.tenant, line.rank)
                          ORDER BY ready.tenant, ready.rank LIMIT 1) AS next)
SELECT tenant, rank
  FROM (SELECT tenant, rank, (SELECT fence FROM fencepost.served WHERE served.tenant = line.tenant) AS served
          FROM line) AS each_line
 WHERE NOT EXISTS (SELECT 1 FROM fencepost.pause
                    WHERE pause.tenant = each_line.tenant AND schedule = ''
                      AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
 ORDER BY served NULLS FIRST, tenant, rank

-- :name lane_heads
-- As `line_heads`, with the rows locked; a row that another worker has locked is left to it. A run without a schedule
-- leases only itself, so there is nothing to look up for it.
SELECT head.*
  FROM fencepost.ready
 CROSS JOIN LATERAL (
       SELECT * FROM {lane_row}
        WHERE lane_row.id = ready.id AND lane_row.state = 'ready'
          AND (ready.schedule IS NULL
               OR (NOT EXISTS (SELECT 1 FROM fencepost.keys(lane_row.resources) AS mine
                                 JOIN fencepost.resource ON resource.tenant = mine.tenant AND resource.name = mine.name
                                 JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                                WHERE lease_fact.remaining_ns > 0)
                   AND lane_row.lease_max > (SELECT count(*) FROM fencepost.running AS other
                                               JOIN fencepost.lease_fact
                                                 ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                                              WHERE other.tenant = ready.tenant AND other.schedule = ready.schedule
                                                AND lease_fact.remaining_ns > 0)))
          FOR UPDATE SKIP LOCKED) AS head
 WHERE ready.in_process = true AND ready.tenant = %(tenant)s AND ready.rank = %(rank)s
   AND ready.place_us <= (SELECT fencepost.clock_us()) AND ready.ready_us <= (SELECT fencepost.clock_us())
   AND ready.id <> ALL (ARRAY(SELECT jsonb_array_elements_text(%(passed)s::jsonb)))
 ORDER BY ready.place_us, ready.id
 LIMIT %(limit)s

-- :name checkpoints
SELECT run_id, content FROM fencepost.checkpoint
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name runs_of_lease
SELECT run_fact.*
  FROM fencepost.running
 CROSS JOIN LATERAL (SELECT * FROM {run_fact} WHERE id = running.id AND state = 'running' OFFSET 0) AS run_fact
 WHERE running.lease_id = %(lease_id)s
 ORDER BY run_fact.place_us, run_fact.id

-- :name begun_of_lease
SELECT run_id FROM fencepost.attempt
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND fence = %(fence)s
   AND started_us IS NOT NULL

-- :name stops_asked
SELECT run.id, run.stop
  FROM fencepost.running
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = running.id OFFSET 0) AS run
 WHERE running.lease_id = %(lease_id)s AND run.fence = %(fence)s AND run.state = 'running' AND run.stop IS NOT NULL

-- :name lane_ready
SELECT count(*)
  FROM (SELECT 1 FROM fencepost.ready
         WHERE in_process = true AND ready_us <= (SELECT fencepost.clock_us())
         ORDER BY tenant, rank, place_us, id
         LIMIT %(limit)s) AS ready
