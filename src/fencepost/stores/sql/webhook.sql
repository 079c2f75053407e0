-- :name hook
SELECT name, agent, definition, source FROM fencepost.hook WHERE tenant = :tenant AND name = :name

-- :name hooks
SELECT name, agent, definition, source FROM fencepost.hook WHERE tenant = :tenant ORDER BY name

-- :name put_hook
INSERT INTO fencepost.hook (tenant, name, agent, definition, source, applied_us)
VALUES (:tenant, :name, :agent, :definition, :source, fencepost.clock_us())
ON CONFLICT (tenant, name) DO UPDATE
   SET agent = excluded.agent, definition = excluded.definition, source = excluded.source,
       applied_us = excluded.applied_us

-- :name drop_hook
DELETE FROM fencepost.hook WHERE tenant = :tenant AND name = :name

-- :name gathering
SELECT run_id, first_us, count FROM fencepost.gathering WHERE tenant = :tenant AND hook = :hook

-- :name join_gathering
-- Only while it waits for its time: an agent that may have been started already gets no other payload.
UPDATE fencepost.run
   SET payload = :payload, waiting_us = :ready_us, place_us = :ready_us, ready_us = :ready_us,
       give_up_us = give_up_us + (:ready_us - ready_us)
 WHERE id = :run_id AND tenant = :tenant AND state = 'ready' AND attempt = 0 AND stop IS NULL
   AND ready_us > :now_us
RETURNING id

-- :name put_gathering
INSERT INTO fencepost.gathering (tenant, hook, run_id, first_us, count)
VALUES (:tenant, :hook, :run_id, :first_us, :count)
ON CONFLICT (tenant, hook) DO UPDATE
   SET run_id = excluded.run_id, first_us = excluded.first_us, count = excluded.count
