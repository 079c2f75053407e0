-- :name schedule_to_run
SELECT agent, manifest, manifest_hash, name, version, definition, cursor_us, last_success_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(name)s AND retired_us IS NULL
   AND NOT EXISTS (SELECT 1 FROM fencepost.meta WHERE key = 'moved:' || %(tenant)s)
   FOR UPDATE OF schedule

-- :name agent_to_run
SELECT definition, hash,
       EXISTS (SELECT 1 FROM fencepost.manifest
                WHERE manifest.tenant = agent.tenant AND manifest.hash = agent.hash
                  AND used_us > fencepost.clock_us() - %(fresh_us)s::bigint)
  FROM fencepost.agent
 WHERE tenant = %(tenant)s AND name = %(name)s AND retired_us IS NULL
   AND NOT EXISTS (SELECT 1 FROM fencepost.meta WHERE key = 'moved:' || %(tenant)s)
   FOR NO KEY UPDATE OF agent

-- :name waiting_of_agent
-- A row takes at least 80 bytes. Where the whole table has no room for more than are `enough`, that many is the answer.
SELECT CASE WHEN most <= %(enough)s THEN most
            ELSE (SELECT count(*)
                    FROM (SELECT 1 FROM fencepost.ready
                           WHERE tenant = %(tenant)s AND agent = %(agent)s AND schedule IS NULL AND is_fresh
                           LIMIT %(limit)s) AS waiting)
        END, fencepost.clock_us()
  FROM (SELECT pg_relation_size('fencepost.ready') / 80 AS most) AS room

-- :name insert_batch
-- Runs that are alike but for their payloads, and that have no caller's key: each is new, all are made, and the key that an
-- agent gets is the run's id.
WITH made AS (
    INSERT INTO fencepost.run ({batch_run}, id, idempotency_key, payload, resources, lines_up, project, rank,
                               state, created_us, waiting_us, ready_us, counted_us, place_us, give_up_us, kept)
    SELECT {batch_run_values}, id, id, payload, '[[' || %(itself)s::text || ', "run:' || id || '"]]', false, %(project)s,
           -%(priority)s::bigint, 'ready', now_us, now_us, now_us, now_us, now_us, now_us + %(queue_for_us)s::bigint, 0
      FROM (SELECT one ->> 0 AS id, one ->> 1 AS payload
              FROM jsonb_array_elements(%(wishes)s::jsonb) AS one
            OFFSET 0) AS wish,  -- so that each value is looked up once
           (SELECT %(now_us)s::bigint AS now_us) AS clock
    RETURNING id)
INSERT INTO fencepost.ready (in_process, tenant, rank, place_us, id, ready_us, is_later, is_fresh, give_up_us,
                             agent, schedule, project)
SELECT %(in_process)s, %(tenant)s, -%(priority)s::bigint, now_us, id, now_us, false, true,
       now_us + %(queue_for_us)s::bigint, %(agent)s, NULL, %(project)s
  FROM made, (SELECT %(now_us)s::bigint AS now_us) AS clock

-- :name insert_keyed_batch
-- As `insert_batch`; a run whose key is known already is not made again, and those that are made are returned.
WITH made AS (
    INSERT INTO fencepost.run ({batch_run}, id, idempotency_key, request_key, payload, resources, lines_up, project, rank,
                               state, created_us, waiting_us, ready_us, counted_us, place_us, give_up_us, kept)
    SELECT {batch_run_values}, one ->> 0, one ->> 2, one ->> 3, one ->> 1,
           '[[' || %(itself)s::text || ', "run:' || (one ->> 0) || '"]]', false, %(project)s,
           -%(priority)s::bigint, 'ready', now_us, now_us, now_us, now_us, now_us, now_us + %(queue_for_us)s::bigint, 0
      FROM jsonb_array_elements(%(wishes)s::jsonb) AS one, (SELECT %(now_us)s::bigint AS now_us) AS clock
    ON CONFLICT (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL DO NOTHING
    RETURNING id),
queued AS (
    INSERT INTO fencepost.ready (in_process, tenant, rank, place_us, id, ready_us, is_later, is_fresh, give_up_us,
                                 agent, schedule, project)
    SELECT %(in_process)s, %(tenant)s, -%(priority)s::bigint, now_us, id, now_us, false, true,
           now_us + %(queue_for_us)s::bigint, %(agent)s, NULL, %(project)s
      FROM made, (SELECT %(now_us)s::bigint AS now_us) AS clock)
SELECT id FROM made

-- :name asked_again_many
UPDATE fencepost.run SET requests = requests + 1
 WHERE tenant = %(tenant)s AND coalesce(schedule, agent) = %(target)s
   AND request_key = ANY (ARRAY(SELECT jsonb_array_elements_text(%(keys)s::jsonb)))
RETURNING request_key, id, payload
