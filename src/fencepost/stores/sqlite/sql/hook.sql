-- :name hook
SELECT name, agent, definition, source FROM hook WHERE tenant = :tenant AND name = :name

-- :name hooks
SELECT name, agent, definition, source FROM hook WHERE tenant = :tenant ORDER BY name

-- :name put_hook
INSERT INTO hook (tenant, name, agent, definition, source, applied_us)
VALUES (:tenant, :name, :agent, :definition, :source, wall_us())
ON CONFLICT (tenant, name) DO UPDATE
   SET agent = excluded.agent, definition = excluded.definition, source = excluded.source,
       applied_us = excluded.applied_us

-- :name drop_hook
DELETE FROM hook WHERE tenant = :tenant AND name = :name
