-- :name exists
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?);

-- :name make
CREATE TABLE IF NOT EXISTS {table} (
    key TEXT PRIMARY KEY,  -- tenant and resource; * is the floor of all that have no mark of their own
    fence INTEGER NOT NULL,
    store TEXT NOT NULL,
    host TEXT NOT NULL,
    run_id TEXT NOT NULL,
    at_us INTEGER NOT NULL
);

-- :name make_pass
-- Who is writing: there only while a transaction is open, and so seen by no other connection.
CREATE TABLE IF NOT EXISTS {pass} (key TEXT PRIMARY KEY, fence INTEGER NOT NULL);

-- :name guarded
SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name = 'fencepost_insert_' || tbl_name ORDER BY 1;

-- :name marks
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE fence > 0 ORDER BY key;

-- :name prepare
-- A write before the first look: it takes the one lock that SQLite has.
INSERT INTO {table} (key, fence, store, host, run_id, at_us) VALUES (?, 0, '', '', '', 0) ON CONFLICT (key) DO NOTHING;

-- :name look
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ?;

-- :name hold
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ?;

-- :name share
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ?;

-- :name lift
UPDATE {table} SET fence = ?, store = ?, host = ?, run_id = ?, at_us = ? WHERE key = ?;

-- :name forget
DELETE FROM {table} WHERE key = ?;

-- :name show
INSERT INTO {pass} (key, fence) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET fence = excluded.fence;

-- :name hide
DELETE FROM {pass};

-- :name patience
SELECT 1;
