-- :name meta
SELECT value FROM meta WHERE key = :key

-- :name set_meta
INSERT INTO meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- :name lift_floor
-- Text in, number compared: the floor may be lifted and never lowered.
INSERT INTO meta (key, value) VALUES ('fence_high', :fence)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
 WHERE CAST(meta.value AS INTEGER) < CAST(excluded.value AS INTEGER)

-- :name store_clock_us
SELECT wall_us()
