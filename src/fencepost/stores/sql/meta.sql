-- :name meta
SELECT value FROM fencepost.meta WHERE key = :key

-- :name all_meta
SELECT key, value FROM fencepost.meta

-- :name set_meta
INSERT INTO fencepost.meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- :name store_clock_us
SELECT fencepost.clock_us()

-- :name drop_meta
DELETE FROM fencepost.meta WHERE key = :key
