-- :name lift_floor
-- Text in, number compared: the floor may be lifted and never lowered.
INSERT INTO fencepost.meta (key, value) VALUES ('fence_high', %(fence)s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
 WHERE meta.value::bigint < excluded.value::bigint

-- :name stand_still
-- Every verb that ends in a grant, or in the end of one, touches these in this order: those under way finish first,
-- later ones see what is done here. Readers go on.
LOCK TABLE fencepost.resource, fencepost.lease, fencepost.waiter IN EXCLUSIVE MODE

-- :name highest_fence
SELECT greatest(coalesce((SELECT max(fence) FROM fencepost.resource), 0),
                coalesce((SELECT max(fence) FROM fencepost.lease), 0),
                (SELECT value::bigint FROM fencepost.meta WHERE key = 'fence_high'))
