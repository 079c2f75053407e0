-- :name registry_revision
SELECT revision FROM fencepost.registry_revision WHERE tenant = :tenant

-- :name next_revision
INSERT INTO fencepost.registry_revision (tenant, revision) VALUES (:tenant, 1)
ON CONFLICT (tenant) DO UPDATE SET revision = registry_revision.revision + 1

-- :name applying_of
SELECT id, source, actor, decided_us FROM fencepost.applying WHERE tenant = :tenant

-- :name next_applying
SELECT tenant FROM fencepost.applying ORDER BY tenant LIMIT 1

-- :name stage_step
INSERT INTO fencepost.apply_step (id, number, tenant, what, rows, staged_us)
VALUES (:id, :number, :tenant, :what, :rows, fencepost.clock_us())

-- :name staged_steps
SELECT count(*) FROM fencepost.apply_step WHERE id = :id

-- :name begin_applying
INSERT INTO fencepost.applying (tenant, id, source, actor, decided_us) VALUES (:tenant, :id, :source, :actor, :decided_us)

-- :name next_step
SELECT number, what, rows FROM fencepost.apply_step WHERE id = :id ORDER BY number LIMIT 1

-- :name drop_steps
DELETE FROM fencepost.apply_step WHERE id = :id AND number <= :number

-- :name end_applying
DELETE FROM fencepost.applying WHERE tenant = :tenant AND id = :id

-- :name left_steps
-- The next steps of an apply that has been undecided for so long that its program must be gone.
SELECT id, min(number) FROM fencepost.apply_step
 WHERE tenant = :tenant AND staged_us < fencepost.clock_us() - :left_us AND id NOT IN (SELECT id FROM fencepost.applying)
 GROUP BY id
 LIMIT 1
