-- :name schedule_to_run
SELECT agent, manifest, manifest_hash, name, version, definition, cursor_us, last_success_us
  FROM schedule
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'moved:' || :tenant)

-- :name agent_to_run
SELECT definition, hash,
       EXISTS (SELECT 1 FROM manifest
                WHERE manifest.tenant = agent.tenant AND manifest.hash = agent.hash AND used_us > wall_us() - :fresh_us)
  FROM agent
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'moved:' || :tenant)

-- :name waiting_of_agent
-- A run takes at least 200 bytes. Where the whole file has no room for more than are `enough`, that many is the answer.
SELECT CASE WHEN most <= :enough THEN most
            ELSE (SELECT count(*)
                    FROM (SELECT 1 FROM run INDEXED BY run_live
                           WHERE state = 'ready' AND state IN ('ready', 'running') AND started_us IS NULL
                             AND tenant = :tenant AND schedule IS NULL AND agent = :agent
                           LIMIT :limit))
        END, wall_us()
  FROM (SELECT page_count * page_size / 200 AS most FROM pragma_page_count, pragma_page_size)

-- :name insert_batch
-- Runs that are alike but for their payloads, and that have no caller's key: each is new, all are made, and the key that an
-- agent gets is the run's id.
INSERT INTO run ({batch_run}, id, idempotency_key, payload, resources, lines_up, project, rank,
                 state, created_us, waiting_us, ready_us, counted_us, place_us, give_up_us)
SELECT {batch_run_values}, value ->> 0, value ->> 0, value ->> 1, '[[' || :itself || ', "run:' || (value ->> 0) || '"]]', 0, :project,
       -:priority, 'ready', :now_us, :now_us, :now_us, :now_us, :now_us, :now_us + :queue_for_us
  FROM json_each(:wishes)

-- :name insert_keyed_batch
-- As `insert_batch`; a run whose key is known already is not made again, and those that are made are returned.
INSERT INTO run ({batch_run}, id, idempotency_key, request_key, payload, resources, lines_up, project, rank,
                 state, created_us, waiting_us, ready_us, counted_us, place_us, give_up_us)
SELECT {batch_run_values}, value ->> 0, value ->> 2, value ->> 3, value ->> 1,
       '[[' || :itself || ', "run:' || (value ->> 0) || '"]]', 0, :project,
       -:priority, 'ready', :now_us, :now_us, :now_us, :now_us, :now_us, :now_us + :queue_for_us
  FROM json_each(:wishes)
 WHERE true
ON CONFLICT (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING id

-- :name asked_again_many
UPDATE run SET requests = requests + 1
 WHERE tenant = :tenant AND coalesce(schedule, agent) = :target AND request_key IS NOT NULL
   AND request_key IN (SELECT value FROM json_each(:keys))
RETURNING request_key, id, payload
