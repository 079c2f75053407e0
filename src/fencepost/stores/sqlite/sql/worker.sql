-- :name ready_count
-- What a worker would come in vain for is left out: what is halted, has no room, or waits for what is held.
SELECT count(*)
  FROM (SELECT 1 FROM run AS waiting
         WHERE state = 'ready' AND NOT in_process AND ready_us <= wall_us()
           AND tenant NOT IN (SELECT tenant FROM pause
                               WHERE schedule = '' AND since_us <= wall_us() AND until_us > wall_us())
           AND (schedule IS NULL
                OR lease_max > (SELECT count(*) FROM run AS other INDEXED BY run_live
                                  JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                                 WHERE other.tenant = waiting.tenant AND other.schedule = waiting.schedule
                                   AND other.state = 'running' AND other.state IN ('ready', 'running')
                                   AND lease_fact.remaining_ns > 0))
           AND NOT EXISTS (SELECT 1 FROM json_each(waiting.resources) AS mine
                             JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                             JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE lease_fact.remaining_ns > 0)
           AND NOT EXISTS (SELECT 1 FROM run
                             JOIN workplace_fact AS place ON place.tenant = run.tenant AND place.project = run.project
                             JOIN resource ON resource.tenant = '*' AND resource.name = place.resource
                             JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                            WHERE run.id = waiting.id AND run.project IS NOT NULL AND place.slots = 1
                              AND NOT (place.isolated AND run.trigger <> 'manual') AND lease_fact.remaining_ns > 0)
         LIMIT :limit)

-- :name next_ready_after
SELECT min(ready_us) FROM run WHERE state = 'ready' AND ready_us > wall_us()
