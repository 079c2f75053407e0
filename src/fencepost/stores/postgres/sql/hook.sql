-- :name hook
SELECT name, agent, definition, source FROM fencepost.hook WHERE tenant = %(tenant)s AND name = %(name)s

-- :name hooks
SELECT name, agent, definition, source FROM fencepost.hook WHERE tenant = %(tenant)s ORDER BY name

-- :name put_hook
INSERT INTO fencepost.hook (tenant, name, agent, definition, source, applied_us)
VALUES (%(tenant)s, %(name)s, %(agent)s, %(definition)s, %(source)s, fencepost.clock_us())
ON CONFLICT (tenant, name) DO UPDATE
   SET agent = excluded.agent, definition = excluded.definition, source = excluded.source,
       applied_us = excluded.applied_us

-- :name drop_hook
DELETE FROM fencepost.hook WHERE tenant = %(tenant)s AND name = %(name)s
