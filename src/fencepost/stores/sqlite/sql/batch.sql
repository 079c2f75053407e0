-- :name lane_next
-- The head of the first of `lane_lines` in one go, as `lane_heads` has it: nearly always there is only one line.
WITH RECURSIVE each_tenant (tenant) AS (
    SELECT min(tenant) FROM run INDEXED BY run_lane WHERE state = 'ready' AND in_process
    UNION ALL
    SELECT (SELECT min(run.tenant) FROM run INDEXED BY run_lane
             WHERE run.state = 'ready' AND run.in_process AND run.tenant > each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL),
line (tenant, rank) AS (
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL
    UNION ALL
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = line.tenant AND run.rank > line.rank)
      FROM line
     WHERE rank IS NOT NULL),
first AS MATERIALIZED (
    SELECT tenant, rank
      FROM (SELECT tenant, rank, (SELECT max(fence) FROM run
                                   WHERE run.tenant = line.tenant AND fence IS NOT NULL) AS served
              FROM line WHERE rank IS NOT NULL) AS each_line
     WHERE NOT EXISTS (SELECT 1 FROM pause
                        WHERE pause.tenant = each_line.tenant AND schedule = ''
                          AND since_us <= wall_us() AND until_us > wall_us())
     ORDER BY served NULLS FIRST, tenant, rank
     LIMIT 1)
SELECT * FROM {lane_row}
 WHERE state = 'ready' AND tenant = (SELECT tenant FROM first) AND rank = (SELECT rank FROM first)
   AND place_us <= wall_us() AND ready_us <= wall_us()
   AND (schedule IS NULL
        OR (NOT EXISTS (SELECT 1 FROM json_each(lane_row.resources) AS mine
                          JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                          JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                         WHERE lease_fact.remaining_ns > 0)
            AND lease_max > (SELECT count(*) FROM run AS other INDEXED BY run_live
                               JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                              WHERE other.tenant = lane_row.tenant AND other.schedule = lane_row.schedule
                                AND other.state = 'running' AND other.state IN ('ready', 'running')
                                AND lease_fact.remaining_ns > 0)))
 ORDER BY place_us, id
 LIMIT :limit

-- :name lane_take
-- What `lane_next` would find, leased and begun in the same breath, with the fence that `next_fence` would give. It is for
-- runs that were never leased, of no schedule, that lease only themselves: if one of them is not like that, none is
-- taken, so that no run is passed by. It is looked first and taken then, by what was seen: see spans.py.
WITH RECURSIVE each_tenant (tenant) AS (
    SELECT min(tenant) FROM run INDEXED BY run_lane WHERE state = 'ready' AND in_process
    UNION ALL
    SELECT (SELECT min(run.tenant) FROM run INDEXED BY run_lane
             WHERE run.state = 'ready' AND run.in_process AND run.tenant > each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL),
line (tenant, rank) AS (
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL
    UNION ALL
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = line.tenant AND run.rank > line.rank)
      FROM line
     WHERE rank IS NOT NULL),
first AS MATERIALIZED (
    SELECT tenant, rank
      FROM (SELECT tenant, rank, (SELECT max(fence) FROM run
                                   WHERE run.tenant = line.tenant AND fence IS NOT NULL) AS served
              FROM line WHERE rank IS NOT NULL) AS each_line
     WHERE NOT EXISTS (SELECT 1 FROM pause
                        WHERE pause.tenant = each_line.tenant AND schedule = ''
                          AND since_us <= wall_us() AND until_us > wall_us())
     ORDER BY served NULLS FIRST, tenant, rank
     LIMIT 1),
now AS MATERIALIZED (
    SELECT us, max(us, 1 + (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence_high')) AS fence
      FROM (SELECT wall_us() AS us))
SELECT {taken_run},
       (SELECT fence FROM now), true, (SELECT us FROM now),
       schedule IS NULL AND fence IS NULL AND attempt = 0 AND manifest = ''
       AND resources = '[[' || :itself || ', "run:' || id || '"]]' AS is_plain
  FROM run INDEXED BY run_lane
 WHERE state = 'ready' AND in_process AND tenant = (SELECT tenant FROM first) AND rank = (SELECT rank FROM first)
   AND place_us <= wall_us() AND ready_us <= wall_us()
 ORDER BY place_us, id
 LIMIT :limit;

UPDATE run
   SET state = 'running', reason = NULL, attempt = 1, stop = NULL, lease_id = :lease_id, worker = :worker,
       fence = @fence, started_us = @now_us
 WHERE id IN (SELECT value FROM json_each(@ids)) AND state = 'ready'

-- :name lane_lines
-- As `ready_lines`, of the runs that lanes carry out.
WITH RECURSIVE each_tenant (tenant) AS (
    SELECT min(tenant) FROM run INDEXED BY run_lane WHERE state = 'ready' AND in_process
    UNION ALL
    SELECT (SELECT min(run.tenant) FROM run INDEXED BY run_lane
             WHERE run.state = 'ready' AND run.in_process AND run.tenant > each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL),
line (tenant, rank) AS (
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL
    UNION ALL
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_lane
                     WHERE run.state = 'ready' AND run.in_process AND run.tenant = line.tenant AND run.rank > line.rank)
      FROM line
     WHERE rank IS NOT NULL)
SELECT tenant, rank
  FROM (SELECT tenant, rank, (SELECT max(fence) FROM run
                               WHERE run.tenant = line.tenant AND fence IS NOT NULL) AS served
          FROM line WHERE rank IS NOT NULL) AS each_line
 WHERE NOT EXISTS (SELECT 1 FROM pause
                    WHERE pause.tenant = each_line.tenant AND schedule = ''
                      AND since_us <= wall_us() AND until_us > wall_us())
 ORDER BY served NULLS FIRST, tenant, rank

-- :name lane_heads
-- As `line_heads`; the whole file is locked already. A run without a schedule
-- leases only itself, so there is nothing to look up for it.
SELECT * FROM {lane_row}
 WHERE state = 'ready' AND tenant = :tenant AND rank = :rank
   AND place_us <= wall_us() AND ready_us <= wall_us()
   AND id NOT IN (SELECT value FROM json_each(:passed))
   AND (schedule IS NULL
        OR (NOT EXISTS (SELECT 1 FROM json_each(lane_row.resources) AS mine
                          JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                          JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                         WHERE lease_fact.remaining_ns > 0)
            AND lease_max > (SELECT count(*) FROM run AS other INDEXED BY run_live
                               JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                              WHERE other.tenant = lane_row.tenant AND other.schedule = lane_row.schedule
                                AND other.state = 'running' AND other.state IN ('ready', 'running')
                                AND lease_fact.remaining_ns > 0)))
 ORDER BY place_us, id
 LIMIT :limit

-- :name checkpoints
SELECT run_id, content FROM checkpoint
 WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name runs_of_lease
SELECT * FROM {run_fact} WHERE lease_id = :lease_id AND state = 'running' ORDER BY place_us, id

-- :name begun_of_lease
SELECT run_id FROM attempt
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND fence = :fence
   AND started_us IS NOT NULL

-- :name stops_asked
SELECT id, stop FROM run
 WHERE lease_id = :lease_id AND fence = :fence AND state = 'running' AND stop IS NOT NULL

-- :name lane_ready
SELECT count(*)
  FROM (SELECT 1 FROM run INDEXED BY run_lane
         WHERE state = 'ready' AND in_process AND ready_us <= wall_us()
         LIMIT :limit)
