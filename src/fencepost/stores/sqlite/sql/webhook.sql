-- :name known_deliveries
-- Writing makes the second answer as durable as the first.
UPDATE delivery SET times = times + 1
 WHERE tenant = :tenant AND hook = :hook AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, run_id, digest

-- :name put_deliveries
INSERT INTO delivery (tenant, hook, id, run_id, digest, at_us)
SELECT :tenant, :hook, value ->> 0, value ->> 1, value ->> 2, :at_us FROM json_each(:deliveries)
