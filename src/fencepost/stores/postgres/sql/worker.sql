-- :name ready_count
-- What a worker would come in vain for is left out: what is halted, has no room, or waits for what is held.
SELECT count(*)
  FROM (SELECT 1
          FROM fencepost.ready AS queued
         CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = queued.id AND state = 'ready' OFFSET 0) AS waiting
         WHERE queued.in_process = false AND queued.ready_us <= (SELECT fencepost.clock_us())
           AND queued.tenant NOT IN (SELECT tenant FROM fencepost.pause
                                      WHERE schedule = '' AND since_us <= fencepost.clock_us()
                                        AND until_us > fencepost.clock_us())
           AND (queued.schedule IS NULL
                OR waiting.lease_max > (SELECT count(*) FROM fencepost.running AS other
                                          JOIN fencepost.lease_fact
                                            ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                                         WHERE other.tenant = queued.tenant AND other.schedule = queued.schedule
                                           AND lease_fact.remaining_ns > 0))
           AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(waiting.resources::jsonb) AS mine
                             JOIN fencepost.resource
                               ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                             JOIN fencepost.lease_fact
                               ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE lease_fact.remaining_ns > 0)
           AND NOT EXISTS (SELECT 1 FROM fencepost.workplace_fact AS place
                             JOIN fencepost.resource ON resource.tenant = '*' AND resource.name = place.resource
                             JOIN fencepost.lease_fact
                               ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE place.tenant = queued.tenant AND place.project = queued.project AND place.slots = 1
                              AND NOT (place.isolated AND waiting.trigger <> 'manual')
                              AND lease_fact.remaining_ns > 0)
         LIMIT %(limit)s) AS ready

-- :name next_ready_after
SELECT min(ready_us) FROM fencepost.ready WHERE is_later AND ready_us > (SELECT fencepost.clock_us())
