-- :name lock_registry
-- The whole file is locked already.
SELECT 1

-- :name known_agents
SELECT name, hash, definition, source, retired_us IS NOT NULL FROM agent WHERE tenant = :tenant

-- :name known_schedules
SELECT name, version, hash, agent, definition, manifest_hash, source, retired_us IS NOT NULL
  FROM schedule
 WHERE tenant = :tenant
   AND name IN (SELECT name FROM schedule WHERE tenant = :tenant AND source = :source
                UNION ALL
                SELECT value FROM json_each(:names)
                UNION ALL
                SELECT name FROM schedule WHERE tenant = :tenant AND agent IN (SELECT value FROM json_each(:agents))
                UNION ALL
                SELECT name FROM schedule
                 WHERE :keyed AND tenant = :tenant AND retired_us IS NULL AND instr(definition, '"concurrency_key"') > 0)

-- :name lock_schedules
SELECT name, trigger, cursor_us, due_us, once_done, skip_next, CASE WHEN once_done THEN definition END
  FROM schedule
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))
 ORDER BY name

-- :name put_agents
INSERT INTO agent (tenant, name, hash, definition, source, applied_us, applied_by)
SELECT :tenant, value ->> 'name', value ->> 'hash', value ->> 'definition', :source, :now_us, :actor
  FROM json_each(:rows) WHERE true
ON CONFLICT (tenant, name) DO UPDATE
   SET hash = excluded.hash, definition = excluded.definition, source = excluded.source,
       applied_us = excluded.applied_us, applied_by = excluded.applied_by, retired_us = NULL

-- :name move_agents
UPDATE agent SET source = :source
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

-- :name retire_agents
UPDATE agent SET retired_us = :now_us
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

-- :name begin_with_tzdata
-- The first schedules of all are worked out by this release: there is nothing to follow up.
INSERT INTO meta (key, value)
SELECT 'tzdata', :tzdata WHERE NOT EXISTS (SELECT 1 FROM schedule)
ON CONFLICT (key) DO NOTHING

-- :name put_schedules
-- CROSS JOIN keeps SQLite from going through all agents for each row.
INSERT INTO schedule (tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger,
                      cursor_us, due_us, applied_us, skip_next, once_done)
SELECT :tenant, value ->> 'name', value ->> 'version', value ->> 'hash', agent.name, value ->> 'definition',
       agent.definition, agent.hash, value ->> 'source', value ->> 'trigger',
       value ->> 'cursor_us', value ->> 'due_us', :now_us, value ->> 'skip_next', value ->> 'once_done'
  FROM json_each(:rows)
 CROSS JOIN agent ON agent.tenant = :tenant AND agent.name = value ->> 'agent'
 WHERE true
ON CONFLICT (tenant, name) DO UPDATE
   SET version = excluded.version, hash = excluded.hash, agent = excluded.agent, definition = excluded.definition,
       manifest = excluded.manifest, manifest_hash = excluded.manifest_hash, source = excluded.source,
       trigger = excluded.trigger, cursor_us = excluded.cursor_us, due_us = excluded.due_us,
       applied_us = excluded.applied_us, skip_next = excluded.skip_next, once_done = excluded.once_done,
       retired_us = NULL

-- :name end_versions
-- A version ends where its successor begins, or where the schedule was left.
UPDATE schedule_version
   SET until_us = (SELECT cursor_us FROM schedule
                    WHERE schedule.tenant = schedule_version.tenant AND schedule.name = schedule_version.name)
 WHERE tenant = :tenant AND until_us IS NULL AND name IN (SELECT value FROM json_each(:names))

-- :name put_versions
INSERT INTO schedule_version (tenant, name, version, hash, definition, manifest, manifest_hash, applied_us,
                              applied_by, after_us)
SELECT tenant, name, version, hash, definition, manifest, manifest_hash, applied_us, :actor, cursor_us
  FROM schedule
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

-- :name move_schedules
UPDATE schedule SET source = :source
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

-- :name retire_schedules
-- The cursor goes on to now, unless ticks are owed: those were never decided (model/handover.py, ends_at).
UPDATE schedule
   SET retired_us = :now_us, due_us = NULL, skip_next = NULL,
       cursor_us = CASE WHEN due_us <= :now_us OR trigger = 'every' THEN cursor_us
                        ELSE max(cursor_us, :now_us) END
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

-- :name list_agents
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM agent
 WHERE tenant = :tenant AND retired_us IS NULL AND name > :after
 ORDER BY name
 LIMIT :limit

-- :name find_agent
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM agent
 WHERE tenant = :tenant AND name = :name

-- :name schedule_names
SELECT name FROM schedule WHERE tenant = :tenant AND retired_us IS NULL ORDER BY name

-- :name has_tenant
SELECT EXISTS (SELECT 1 FROM agent WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM access_key WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM resource WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM pause WHERE tenant = :tenant)

-- :name tenants
SELECT tenant FROM agent UNION SELECT tenant FROM access_key ORDER BY 1

-- :name list_schedules
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM schedule
 WHERE tenant = :tenant AND retired_us IS NULL AND name > :after
 ORDER BY name
 LIMIT :limit

-- :name find_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM schedule
 WHERE tenant = :tenant AND name = :name

-- :name hold_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM schedule
 WHERE tenant = :tenant AND name = :name

-- :name list_versions
SELECT version, hash, definition, manifest, manifest_hash, applied_us, applied_by, after_us, until_us
  FROM schedule_version
 WHERE tenant = :tenant AND name = :name AND version < :before
 ORDER BY version DESC
 LIMIT :limit

-- :name pauses_of
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM pause
 WHERE tenant = :tenant AND schedule = :schedule AND id < :before
 ORDER BY id DESC
 LIMIT :limit

-- :name pauses_in_force
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM pause
 WHERE tenant = :tenant AND since_us <= :now_us AND until_us > :now_us
 ORDER BY id

-- :name end_pauses
UPDATE pause SET until_us = max(since_us, :now_us)
 WHERE tenant = :tenant AND schedule = :schedule AND until_us > :now_us
RETURNING id, schedule, since_us, until_us, note, by_whom

-- :name put_pause
INSERT INTO pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (:tenant, :schedule, :since_us, :until_us, :note, :by_whom)
RETURNING id, schedule, since_us, until_us, note, by_whom

-- :name set_skip_next
UPDATE schedule SET skip_next = :skip_next
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL
RETURNING name

-- :name members
-- The file itself, and every file of the owners that it may belong to.
SELECT machine, path, owner
  FROM file_member
 WHERE tenant = :tenant
   AND ((machine = :machine AND path = :path) OR owner IN (SELECT value FROM json_each(:owners)))

-- :name owners_in_use
SELECT value
  FROM json_each(:owners)
 WHERE EXISTS (SELECT 1 FROM agent WHERE tenant = :tenant AND source = value AND retired_us IS NULL)
    OR EXISTS (SELECT 1 FROM schedule WHERE tenant = :tenant AND source = value AND retired_us IS NULL)
    OR EXISTS (SELECT 1 FROM hook WHERE tenant = :tenant AND source = value)

-- :name put_member
INSERT INTO file_member (tenant, machine, path, owner)
VALUES (:tenant, :machine, :path, :owner)
ON CONFLICT (tenant, machine, path) DO UPDATE SET owner = excluded.owner WHERE file_member.owner <> excluded.owner

-- :name rename_agents
UPDATE agent SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_schedules
UPDATE schedule SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_hooks
UPDATE hook SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_members
UPDATE file_member SET owner = :new WHERE tenant = :tenant AND owner = :old

-- :name rename_contents
UPDATE file_content SET owner = :new WHERE tenant = :tenant AND owner = :old

-- :name contents
-- The newest first, and then the one that is asked about.
SELECT digest, applied_us, applied_by
  FROM file_content
 WHERE tenant = :tenant AND owner = :owner
   AND (digest = :digest
        OR number = (SELECT max(number) FROM file_content WHERE tenant = :tenant AND owner = :owner))
 ORDER BY number DESC

-- :name put_content
INSERT INTO file_content (tenant, owner, digest, number, applied_us, applied_by)
SELECT :tenant, :owner, :digest, 1 + coalesce(max(number), 0), :now_us, :actor
  FROM file_content WHERE tenant = :tenant AND owner = :owner
ON CONFLICT (tenant, owner, digest) DO UPDATE
   SET number = excluded.number, applied_us = excluded.applied_us, applied_by = excluded.applied_by

-- :name trim_contents
DELETE FROM file_content
 WHERE tenant = :tenant AND owner = :owner
   AND number <= (SELECT max(number) FROM file_content WHERE tenant = :tenant AND owner = :owner) - :kept
