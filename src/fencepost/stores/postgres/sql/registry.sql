-- :name lock_registry
-- One apply at a time for each tenant, until the end of the transaction.
SELECT 1 FROM pg_advisory_xact_lock(hashtextextended('fencepost registry ' || %(tenant)s, 0))

-- :name known_agents
SELECT name, hash, definition, source, retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = %(tenant)s

-- :name known_schedules
SELECT name, version, hash, agent, definition, manifest_hash, source, retired_us IS NOT NULL
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s
   AND name IN (SELECT name FROM fencepost.schedule WHERE tenant = %(tenant)s AND source = %(source)s
                UNION ALL
                SELECT jsonb_array_elements_text(%(names)s::jsonb)
                UNION ALL
                SELECT name FROM fencepost.schedule
                 WHERE tenant = %(tenant)s AND agent IN (SELECT jsonb_array_elements_text(%(agents)s::jsonb))
                UNION ALL
                SELECT name FROM fencepost.schedule
                 WHERE %(keyed)s AND tenant = %(tenant)s AND retired_us IS NULL AND position('"concurrency_key"' IN definition) > 0)

-- :name lock_schedules
-- One look into the index for each name: a table that has grown a moment ago has no statistics yet.
SELECT schedule.name, trigger, cursor_us, due_us, once_done, skip_next, CASE WHEN once_done THEN definition END
  FROM jsonb_array_elements_text(%(names)s::jsonb) AS one (name)
 CROSS JOIN LATERAL (SELECT * FROM fencepost.schedule
                      WHERE tenant = %(tenant)s AND name = one.name OFFSET 0
                        FOR UPDATE) AS schedule
 ORDER BY schedule.name

-- :name put_agents
INSERT INTO fencepost.agent (tenant, name, hash, definition, source, applied_us, applied_by)
SELECT %(tenant)s, name, hash, definition, %(source)s, %(now_us)s, %(actor)s
  FROM jsonb_to_recordset(%(rows)s::jsonb) AS one (name text, hash text, definition text)
ON CONFLICT (tenant, name) DO UPDATE
   SET hash = excluded.hash, definition = excluded.definition, source = excluded.source,
       applied_us = excluded.applied_us, applied_by = excluded.applied_by, retired_us = NULL

-- :name move_agents
UPDATE fencepost.agent SET source = %(source)s
 WHERE tenant = %(tenant)s AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb))

-- :name retire_agents
UPDATE fencepost.agent SET retired_us = %(now_us)s
 WHERE tenant = %(tenant)s AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb))

-- :name begin_with_tzdata
-- The first schedules of all are worked out by this release: there is nothing to follow up.
INSERT INTO fencepost.meta (key, value)
SELECT 'tzdata', %(tzdata)s WHERE NOT EXISTS (SELECT 1 FROM fencepost.schedule)
ON CONFLICT (key) DO NOTHING

-- :name put_schedules
INSERT INTO fencepost.schedule (tenant, name, version, hash, agent, definition, manifest, manifest_hash, source,
                                trigger, cursor_us, due_us, applied_us, skip_next, once_done)
SELECT agent.tenant, one.name, one.version, one.hash, agent.name, one.definition,
       agent.definition, agent.hash, one.source, one.trigger,
       one.cursor_us, one.due_us, %(now_us)s, one.skip_next, one.once_done
  FROM jsonb_to_recordset(%(rows)s::jsonb)
       AS one (name text, version bigint, hash text, agent text, definition text, source text, trigger text,
               cursor_us bigint, due_us bigint, skip_next text, once_done boolean)
  JOIN fencepost.agent ON agent.tenant = %(tenant)s AND agent.name = one.agent
ON CONFLICT (tenant, name) DO UPDATE
   SET version = excluded.version, hash = excluded.hash, agent = excluded.agent, definition = excluded.definition,
       manifest = excluded.manifest, manifest_hash = excluded.manifest_hash, source = excluded.source,
       trigger = excluded.trigger, cursor_us = excluded.cursor_us, due_us = excluded.due_us,
       applied_us = excluded.applied_us, skip_next = excluded.skip_next, once_done = excluded.once_done,
       retired_us = NULL

-- :name end_versions
-- A version ends where its successor begins, or where the schedule was left. An array, and no join: a table that has
-- grown a moment ago has no statistics yet, and the planner would go through all of it for each name.
UPDATE fencepost.schedule_version
   SET until_us = (SELECT cursor_us FROM fencepost.schedule
                    WHERE schedule.tenant = schedule_version.tenant AND schedule.name = schedule_version.name)
 WHERE tenant = %(tenant)s AND until_us IS NULL
   AND name = ANY (ARRAY(SELECT jsonb_array_elements_text(%(names)s::jsonb)))

-- :name put_versions
INSERT INTO fencepost.schedule_version (tenant, name, version, hash, definition, manifest, manifest_hash,
                                        applied_us, applied_by, after_us)
SELECT tenant, schedule.name, version, hash, definition, manifest, manifest_hash, applied_us, %(actor)s, cursor_us
  FROM jsonb_array_elements_text(%(names)s::jsonb) AS one (name)
 CROSS JOIN LATERAL (SELECT * FROM fencepost.schedule WHERE tenant = %(tenant)s AND name = one.name OFFSET 0) AS schedule

-- :name move_schedules
UPDATE fencepost.schedule SET source = %(source)s
 WHERE tenant = %(tenant)s AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb))

-- :name retire_schedules
-- The cursor goes on to now, unless ticks are owed: those were never decided (model/handover.py, ends_at).
UPDATE fencepost.schedule
   SET retired_us = %(now_us)s, due_us = NULL, skip_next = NULL,
       cursor_us = CASE WHEN due_us <= %(now_us)s OR trigger = 'every' THEN cursor_us
                        ELSE greatest(cursor_us, %(now_us)s) END
 WHERE tenant = %(tenant)s AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb))

-- :name list_agents
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM fencepost.agent
 WHERE tenant = %(tenant)s AND retired_us IS NULL AND name > %(after)s
 ORDER BY name
 LIMIT %(limit)s

-- :name find_agent
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM fencepost.agent
 WHERE tenant = %(tenant)s AND name = %(name)s

-- :name schedule_names
SELECT name FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL ORDER BY name

-- :name has_tenant
SELECT EXISTS (SELECT 1 FROM fencepost.agent WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM fencepost.access_key WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM fencepost.resource WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM fencepost.pause WHERE tenant = %(tenant)s)

-- :name tenants
SELECT tenant FROM fencepost.agent UNION SELECT tenant FROM fencepost.access_key ORDER BY 1

-- :name list_schedules
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND retired_us IS NULL AND name > %(after)s
 ORDER BY name
 LIMIT %(limit)s

-- :name find_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(name)s

-- :name hold_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(name)s
   FOR UPDATE

-- :name list_versions
SELECT version, hash, definition, manifest, manifest_hash, applied_us, applied_by, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = %(tenant)s AND name = %(name)s AND version < %(before)s
 ORDER BY version DESC
 LIMIT %(limit)s

-- :name pauses_of
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND id < %(before)s
 ORDER BY id DESC
 LIMIT %(limit)s

-- :name pauses_in_force
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND since_us <= %(now_us)s AND until_us > %(now_us)s
 ORDER BY id

-- :name end_pauses
UPDATE fencepost.pause SET until_us = greatest(since_us, %(now_us)s)
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND until_us > %(now_us)s
RETURNING id, schedule, since_us, until_us, note, by_whom

-- :name put_pause
INSERT INTO fencepost.pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (%(tenant)s, %(schedule)s, %(since_us)s, %(until_us)s, %(note)s, %(by_whom)s)
RETURNING id, schedule, since_us, until_us, note, by_whom

-- :name set_skip_next
UPDATE fencepost.schedule SET skip_next = %(skip_next)s
 WHERE tenant = %(tenant)s AND name = %(name)s AND retired_us IS NULL
RETURNING name

-- :name members
-- The file itself, and every file of the owners that it may belong to.
SELECT machine, path, owner
  FROM fencepost.file_member
 WHERE tenant = %(tenant)s
   AND ((machine = %(machine)s AND path = %(path)s) OR owner IN (SELECT jsonb_array_elements_text(%(owners)s::jsonb)))

-- :name owners_in_use
SELECT value
  FROM jsonb_array_elements_text(%(owners)s::jsonb) AS one (value)
 WHERE EXISTS (SELECT 1 FROM fencepost.agent WHERE tenant = %(tenant)s AND source = value AND retired_us IS NULL)
    OR EXISTS (SELECT 1 FROM fencepost.schedule WHERE tenant = %(tenant)s AND source = value AND retired_us IS NULL)
    OR EXISTS (SELECT 1 FROM fencepost.hook WHERE tenant = %(tenant)s AND source = value)

-- :name put_member
INSERT INTO fencepost.file_member (tenant, machine, path, owner)
VALUES (%(tenant)s, %(machine)s, %(path)s, %(owner)s)
ON CONFLICT (tenant, machine, path) DO UPDATE SET owner = excluded.owner WHERE file_member.owner <> excluded.owner

-- :name rename_agents
UPDATE fencepost.agent SET source = %(new)s WHERE tenant = %(tenant)s AND source = %(old)s

-- :name rename_schedules
UPDATE fencepost.schedule SET source = %(new)s WHERE tenant = %(tenant)s AND source = %(old)s

-- :name rename_hooks
UPDATE fencepost.hook SET source = %(new)s WHERE tenant = %(tenant)s AND source = %(old)s

-- :name rename_members
UPDATE fencepost.file_member SET owner = %(new)s WHERE tenant = %(tenant)s AND owner = %(old)s

-- :name rename_contents
UPDATE fencepost.file_content SET owner = %(new)s WHERE tenant = %(tenant)s AND owner = %(old)s

-- :name contents
-- The newest first, and then the one that is asked about.
SELECT digest, applied_us, applied_by
  FROM fencepost.file_content
 WHERE tenant = %(tenant)s AND owner = %(owner)s
   AND (digest = %(digest)s
        OR number = (SELECT max(number) FROM fencepost.file_content WHERE tenant = %(tenant)s AND owner = %(owner)s))
 ORDER BY number DESC

-- :name put_content
INSERT INTO fencepost.file_content (tenant, owner, digest, number, applied_us, applied_by)
SELECT %(tenant)s, %(owner)s, %(digest)s, 1 + coalesce(max(number), 0), %(now_us)s, %(actor)s
  FROM fencepost.file_content WHERE tenant = %(tenant)s AND owner = %(owner)s
ON CONFLICT (tenant, owner, digest) DO UPDATE
   SET number = excluded.number, applied_us = excluded.applied_us, applied_by = excluded.applied_by

-- :name trim_contents
DELETE FROM fencepost.file_content
 WHERE tenant = %(tenant)s AND owner = %(owner)s
   AND number <= (SELECT max(number) FROM fencepost.file_content WHERE tenant = %(tenant)s AND owner = %(owner)s) - %(kept)s
