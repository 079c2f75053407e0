-- :name lock_registry
-- The whole file is locked already.
SELECT 1

-- :name known_schedules
-- What a file may touch beyond its own: namesakes, and schedules of agents that change.
SELECT name, version, hash, agent, definition, manifest_hash, source, retired_us IS NOT NULL
  FROM schedule
 WHERE tenant = :tenant
   AND source <> :source
   AND name IN (SELECT value FROM json_each(:names)
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
-- The cursor goes on to now, unless ticks are owed: those were never decided (model/version_handover.py, ends_at).
UPDATE schedule
   SET retired_us = :now_us, due_us = NULL, skip_next = NULL,
       cursor_us = CASE WHEN due_us <= :now_us OR trigger = 'every' THEN cursor_us
                        ELSE max(cursor_us, :now_us) END
 WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names))

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
