-- :name registry_revision
SELECT revision FROM fencepost.registry_revision WHERE tenant = %(tenant)s

-- :name next_revision
INSERT INTO fencepost.registry_revision (tenant, revision) VALUES (%(tenant)s, 1)
ON CONFLICT (tenant) DO UPDATE SET revision = registry_revision.revision + 1

-- :name applying_of
SELECT id, source, actor, decided_us FROM fencepost.applying WHERE tenant = %(tenant)s

-- :name next_applying
SELECT tenant FROM fencepost.applying ORDER BY tenant LIMIT 1

-- :name try_registry
-- As lock_registry, without waiting for another apply.
SELECT pg_try_advisory_xact_lock(hashtextextended('fencepost registry ' || %(tenant)s, 0))

-- :name stage_step
INSERT INTO fencepost.apply_step (id, number, tenant, what, rows, staged_us)
VALUES (%(id)s, %(number)s, %(tenant)s, %(what)s, %(rows)s, fencepost.clock_us())

-- :name staged_steps
SELECT count(*) FROM fencepost.apply_step WHERE id = %(id)s

-- :name begin_applying
INSERT INTO fencepost.applying (tenant, id, source, actor, decided_us) VALUES (%(tenant)s, %(id)s, %(source)s, %(actor)s, %(decided_us)s)

-- :name next_step
SELECT number, what, rows FROM fencepost.apply_step WHERE id = %(id)s ORDER BY number LIMIT 1

-- :name drop_steps
DELETE FROM fencepost.apply_step WHERE id = %(id)s AND number <= %(number)s

-- :name end_applying
DELETE FROM fencepost.applying WHERE tenant = %(tenant)s AND id = %(id)s

-- :name left_steps
-- The next steps of an apply that nobody has decided on for so long that nobody will.
SELECT id, min(number) FROM fencepost.apply_step
 WHERE tenant = %(tenant)s AND staged_us < fencepost.clock_us() - %(left_us)s AND id NOT IN (SELECT id FROM fencepost.applying)
 GROUP BY id
 LIMIT 1
