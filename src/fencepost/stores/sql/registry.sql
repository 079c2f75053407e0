-- :name known_agents
SELECT name, hash, definition, source, retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = :tenant

-- :name own_schedules
SELECT name, version, hash, agent, definition, manifest_hash, source, retired_us IS NOT NULL
  FROM fencepost.schedule
 WHERE tenant = :tenant AND source = :source

-- :name begin_with_tzdata
-- The first schedules of all are worked out by this release: there is nothing to follow up.
INSERT INTO fencepost.meta (key, value)
SELECT 'tzdata', :tzdata WHERE NOT EXISTS (SELECT 1 FROM fencepost.schedule)
ON CONFLICT (key) DO NOTHING

-- :name list_agents
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM fencepost.agent
 WHERE tenant = :tenant AND retired_us IS NULL AND name > :after
 ORDER BY name
 LIMIT :limit

-- :name find_agent
SELECT tenant, name, hash, definition, source, applied_us, applied_by, retired_us
  FROM fencepost.agent
 WHERE tenant = :tenant AND name = :name

-- :name schedule_names
SELECT name FROM fencepost.schedule WHERE tenant = :tenant AND retired_us IS NULL ORDER BY name

-- :name has_tenant
SELECT EXISTS (SELECT 1 FROM fencepost.agent WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM fencepost.access_key WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM fencepost.resource WHERE tenant = :tenant)
    OR EXISTS (SELECT 1 FROM fencepost.pause WHERE tenant = :tenant)

-- :name tenants
SELECT tenant FROM fencepost.agent UNION SELECT tenant FROM fencepost.access_key ORDER BY 1

-- :name list_schedules
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND retired_us IS NULL AND name > :after
 ORDER BY name
 LIMIT :limit

-- :name find_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND name = :name

-- :name hold_schedule
SELECT tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger, cursor_us, due_us,
       applied_us, skip_next, failures, last_success_us, retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND name = :name
   FOR UPDATE

-- :name list_versions
SELECT version, hash, definition, manifest, manifest_hash, applied_us, applied_by, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = :tenant AND name = :name AND version < :before
 ORDER BY version DESC
 LIMIT :limit

-- :name pauses_of
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = :tenant AND schedule = :schedule AND id < :before
 ORDER BY id DESC
 LIMIT :limit

-- :name pauses_in_force
SELECT id, schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = :tenant AND since_us <= :now_us AND until_us > :now_us
 ORDER BY id

-- :name put_pause
INSERT INTO fencepost.pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (:tenant, :schedule, :since_us, :until_us, :note, :by_whom)
RETURNING id, schedule, since_us, until_us, note, by_whom

-- :name set_skip_next
UPDATE fencepost.schedule SET skip_next = :skip_next
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL
RETURNING name

-- :name put_member
INSERT INTO fencepost.file_member (tenant, machine, path, owner)
VALUES (:tenant, :machine, :path, :owner)
ON CONFLICT (tenant, machine, path) DO UPDATE SET owner = excluded.owner WHERE file_member.owner <> excluded.owner

-- :name rename_agents
UPDATE fencepost.agent SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_schedules
UPDATE fencepost.schedule SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_hooks
UPDATE fencepost.hook SET source = :new WHERE tenant = :tenant AND source = :old

-- :name rename_members
UPDATE fencepost.file_member SET owner = :new WHERE tenant = :tenant AND owner = :old

-- :name rename_contents
UPDATE fencepost.file_content SET owner = :new WHERE tenant = :tenant AND owner = :old

-- :name contents
-- The newest first, and then the one that is asked about.
SELECT digest, applied_us, applied_by
  FROM fencepost.file_content
 WHERE tenant = :tenant AND owner = :owner
   AND (digest = :digest
        OR number = (SELECT max(number) FROM fencepost.file_content WHERE tenant = :tenant AND owner = :owner))
 ORDER BY number DESC

-- :name put_content
INSERT INTO fencepost.file_content (tenant, owner, digest, number, applied_us, applied_by)
SELECT :tenant, :owner, :digest, 1 + coalesce(max(number), 0), :now_us, :actor
  FROM fencepost.file_content WHERE tenant = :tenant AND owner = :owner
ON CONFLICT (tenant, owner, digest) DO UPDATE
   SET number = excluded.number, applied_us = excluded.applied_us, applied_by = excluded.applied_by

-- :name trim_contents
DELETE FROM fencepost.file_content
 WHERE tenant = :tenant AND owner = :owner
   AND number <= (SELECT max(number) FROM fencepost.file_content WHERE tenant = :tenant AND owner = :owner) - :kept

-- :name end_pauses
UPDATE fencepost.pause SET until_us = greatest(since_us, :now_us)
 WHERE tenant = :tenant AND schedule = :schedule AND until_us > :now_us
RETURNING id, schedule, since_us, until_us, note, by_whom
