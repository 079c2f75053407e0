-- :name ready_count
SELECT count(*)
  FROM (SELECT 1 FROM run_fact
         WHERE state = 'ready' AND ready_us <= wall_us()
           AND NOT EXISTS (SELECT 1 FROM json_each(run_fact.resources) AS mine
                             JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                             JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE lease_fact.remaining_ns > 0)
         LIMIT :limit)

-- :name next_ready_after
SELECT min(ready_us) FROM run WHERE state = 'ready' AND ready_us > wall_us()
