-- :name ready_count
-- What a worker would come in vain for is left out: what is halted, has no room, or waits for what somebody holds.
SELECT count(*)
  FROM (SELECT 1 FROM fencepost.run AS waiting
         WHERE state = 'ready' AND NOT in_process AND ready_us <= (SELECT fencepost.clock_us())
           AND tenant NOT IN (SELECT tenant FROM fencepost.pause
                               WHERE schedule = '' AND since_us <= fencepost.clock_us()
                                 AND until_us > fencepost.clock_us())
           AND (schedule IS NULL
                OR lease_max > (SELECT count(*) FROM fencepost.run AS other
                                  JOIN fencepost.lease_fact
                                    ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                                 WHERE other.tenant = waiting.tenant AND other.schedule = waiting.schedule
                                   AND other.state = 'running' AND other.state IN ('ready', 'running')
                                   AND lease_fact.remaining_ns > 0))
           AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(waiting.resources::jsonb) AS mine
                             JOIN fencepost.resource
                               ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                             JOIN fencepost.lease_fact
                               ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE lease_fact.remaining_ns > 0)
           AND NOT EXISTS (SELECT 1 FROM fencepost.run
                             JOIN fencepost.workplace_fact AS place
                               ON place.tenant = run.tenant AND place.project = run.project
                             JOIN fencepost.resource ON resource.tenant = '*' AND resource.name = place.resource
                             JOIN fencepost.lease_fact
                               ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE run.id = waiting.id AND run.project IS NOT NULL AND place.slots = 1
                              AND NOT (place.isolated AND run.trigger <> 'manual') AND lease_fact.remaining_ns > 0)
         LIMIT %(limit)s) AS ready

-- :name next_ready_after
SELECT min(ready_us) FROM fencepost.run WHERE state = 'ready' AND ready_us > (SELECT fencepost.clock_us())
