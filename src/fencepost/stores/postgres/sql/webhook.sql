-- :name known_deliveries
-- Writing makes the second answer as durable as the first.
UPDATE fencepost.delivery SET times = times + 1
 WHERE tenant = %(tenant)s AND hook = %(hook)s
   AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
RETURNING id, run_id, digest

-- :name put_deliveries
INSERT INTO fencepost.delivery (tenant, hook, id, run_id, digest, at_us)
SELECT %(tenant)s, %(hook)s, one ->> 0, one ->> 1, one ->> 2, %(at_us)s
  FROM jsonb_array_elements(%(deliveries)s::jsonb) AS one
