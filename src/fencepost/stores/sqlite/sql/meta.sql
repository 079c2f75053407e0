-- :name meta
SELECT value FROM meta WHERE key = :key

-- :name all_meta
SELECT key, value FROM meta

-- :name set_meta
INSERT INTO meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- :name lift_floor
-- Text in, number compared: the floor may be lifted and never lowered.
INSERT INTO meta (key, value) VALUES ('fence_high', :fence)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
 WHERE CAST(meta.value AS INTEGER) < CAST(excluded.value AS INTEGER)

-- :name stand_still
-- The whole file is locked already.
SELECT 1

-- :name highest_fence
SELECT max(coalesce((SELECT max(fence) FROM resource), 0),
           coalesce((SELECT max(fence) FROM lease), 0),
           (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence_high'))

-- :name store_clock_us
SELECT wall_us()

-- :name drop_meta
DELETE FROM meta WHERE key = :key
