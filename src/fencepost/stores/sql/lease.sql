-- :name all_leases
SELECT * FROM fencepost.lease_custody ORDER BY fence, id

-- :name places_beside
-- A project's places after the first are called like itself, with # and a number.
SELECT name FROM fencepost.resource
 WHERE tenant = '*' AND name > :project || '#' AND name < :project || '$'

-- :name leases_on
-- Not what is held and kept by :besides.
SELECT * FROM fencepost.lease_custody
 WHERE machine = :machine AND (lost OR keeper IS NULL OR keeper <> :besides)
 ORDER BY fence, id

-- :name adoptable
SELECT lease_custody.*, (SELECT adopt_key FROM fencepost.lease WHERE lease.id = lease_custody.id)
  FROM fencepost.lease_custody
 WHERE keeper IS NOT NULL AND keeper <> :besides AND keeper_socket IS NOT NULL AND NOT lost
   AND machine = :machine AND boot = :boot AND pid_namespace = :pid_namespace
 ORDER BY fence, id

-- :name forget_commands
DELETE FROM fencepost.guarded_command
 WHERE id IN (SELECT id FROM fencepost.guarded_command
               WHERE tenant = :tenant AND started_us < fencepost.clock_us() - :kept_us
                 AND NOT EXISTS (SELECT 1 FROM fencepost.lease WHERE lease.id = guarded_command.lease_id AND lease.state = 'held')
               ORDER BY started_us LIMIT :limit
                 FOR UPDATE SKIP LOCKED)

-- :name end_command
UPDATE fencepost.guarded_command SET state = :state, exit_code = :exit_code, ended_us = fencepost.clock_us()
 WHERE id = :run_id AND fence = :fence AND state = 'running'

-- :name drop_command
-- It never started.
DELETE FROM fencepost.guarded_command WHERE id = :run_id AND fence = :fence AND state = 'running'

-- :name count_command
INSERT INTO fencepost.meter (tenant, schedule, agent, name, number) VALUES (:tenant, '', '', :name, :number)
ON CONFLICT (tenant, schedule, agent, name) DO UPDATE SET number = meter.number + excluded.number
