-- :name folded
-- Up to when records count in the meters.
SELECT what, until_us FROM fencepost.folded WHERE tenant = :tenant

-- :name begin_folding
INSERT INTO fencepost.folded (tenant, what, until_us) VALUES (:tenant, :what, 0) ON CONFLICT DO NOTHING

-- :name lock_folded
-- Counting and pruning take turns, so that nothing is counted twice or not at all.
SELECT until_us FROM fencepost.folded WHERE tenant = :tenant AND what = :what FOR UPDATE

-- :name raise_folded
UPDATE fencepost.folded SET until_us = :until_us WHERE tenant = :tenant AND what = :what AND until_us < :until_us

-- :name fold_run_cut
SELECT created_us FROM fencepost.run
 WHERE tenant = :tenant AND created_us > :after_us AND created_us <= :until_us
 ORDER BY created_us
 LIMIT 1 OFFSET :limit

-- :name fold_tick_cut
SELECT decided_us FROM fencepost.tick
 WHERE tenant = :tenant AND decided_us > :after_us AND decided_us <= :until_us
 ORDER BY decided_us
 LIMIT 1 OFFSET :limit

-- :name meters
SELECT schedule, agent, name, number FROM fencepost.meter WHERE tenant = :tenant ORDER BY schedule, agent, name
