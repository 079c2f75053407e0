-- :name registry_revision
SELECT revision FROM registry_revision WHERE tenant = :tenant

-- :name next_revision
INSERT INTO registry_revision (tenant, revision) VALUES (:tenant, 1)
ON CONFLICT (tenant) DO UPDATE SET revision = registry_revision.revision + 1

-- :name applying_of
SELECT id, source, actor, decided_us FROM applying WHERE tenant = :tenant

-- :name next_applying
SELECT tenant FROM applying ORDER BY tenant LIMIT 1

-- :name try_registry
-- The whole file is locked already.
SELECT 1

-- :name stage_step
INSERT INTO apply_step (id, number, tenant, what, rows, staged_us)
VALUES (:id, :number, :tenant, :what, :rows, wall_us())

-- :name staged_steps
SELECT count(*) FROM apply_step WHERE id = :id

-- :name begin_applying
INSERT INTO applying (tenant, id, source, actor, decided_us) VALUES (:tenant, :id, :source, :actor, :decided_us)

-- :name next_step
SELECT number, what, rows FROM apply_step WHERE id = :id ORDER BY number LIMIT 1

-- :name drop_steps
DELETE FROM apply_step WHERE id = :id AND number <= :number

-- :name end_applying
DELETE FROM applying WHERE tenant = :tenant AND id = :id

-- :name left_steps
-- The next steps of an apply that nobody has decided on for so long that nobody will.
SELECT id, min(number) FROM apply_step
 WHERE tenant = :tenant AND staged_us < wall_us() - :left_us AND id NOT IN (SELECT id FROM applying)
 GROUP BY id
 LIMIT 1
