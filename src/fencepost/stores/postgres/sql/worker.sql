-- :name ready_count
SELECT count(*)
  FROM (SELECT 1 FROM fencepost.run_fact
         WHERE state = 'ready' AND ready_us <= fencepost.clock_us()
           AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(run_fact.resources::jsonb) AS mine
                             JOIN fencepost.resource
                               ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                             JOIN fencepost.lease_fact
                               ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE lease_fact.remaining_ns > 0)
         LIMIT %(limit)s) AS ready

-- :name next_ready_after
SELECT min(ready_us) FROM fencepost.run WHERE state = 'ready' AND ready_us > fencepost.clock_us()
