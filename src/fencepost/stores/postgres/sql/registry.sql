-- :name lock_registry
-- One apply at a time for each tenant, until the end of the transaction.
SELECT 1 FROM pg_advisory_xact_lock(hashtextextended('fencepost registry ' || %(tenant)s, 0))

-- :name known_schedules
-- What a file may touch beyond its own: namesakes, and schedules of agents that change.
SELECT name, version, hash, agent, definition, manifest_hash, source, retired_us IS NOT NULL
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s
   AND source <> %(source)s
   AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb)
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
-- The cursor goes on to now, unless ticks are owed: those were never decided (model/version_handover.py, ends_at).
UPDATE fencepost.schedule
   SET retired_us = %(now_us)s, due_us = NULL, skip_next = NULL,
       cursor_us = CASE WHEN due_us <= %(now_us)s OR trigger = 'every' THEN cursor_us
                        ELSE greatest(cursor_us, %(now_us)s) END
 WHERE tenant = %(tenant)s AND name IN (SELECT jsonb_array_elements_text(%(names)s::jsonb))

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
