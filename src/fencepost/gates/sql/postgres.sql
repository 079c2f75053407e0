-- :name exists
SELECT to_regclass(?) IS NOT NULL;

-- :name make
CREATE TABLE IF NOT EXISTS {table} (
    key text PRIMARY KEY,  -- tenant and resource; * is the floor of all that have no mark of their own
    fence bigint NOT NULL,
    store text NOT NULL,
    host text NOT NULL,
    run_id text NOT NULL,
    at_us bigint NOT NULL
);

-- :name guarded
SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'fencepost_guard' ORDER BY 1;

-- :name marks
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE fence > 0 ORDER BY key;

-- :name prepare
-- A row that was never raised has fence 0: there must be something to lock.
INSERT INTO {table} (key, fence, store, host, run_id, at_us) VALUES (?, 0, '', '', '', 0) ON CONFLICT (key) DO NOTHING;

-- :name look
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ?;

-- :name hold
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ? FOR UPDATE;

-- :name share
-- Writers of one run need not wait for one another; a raise waits for all of them.
SELECT key, fence, store, host, run_id, at_us FROM {table} WHERE key = ? FOR SHARE;

-- :name lift
UPDATE {table} SET fence = ?, store = ?, host = ?, run_id = ?, at_us = ? WHERE key = ?;

-- :name forget
DELETE FROM {table} WHERE key = ?;

-- :name show
-- Tells a guarded table who is writing, until this transaction ends.
SELECT set_config('fencepost.tenant', ?, true), set_config('fencepost.resource', ?, true),
       set_config('fencepost.fence', ?, true), set_config('fencepost.run_id', ?, true),
       set_config('fencepost.store', ?, true);

-- :name hide
SELECT 1;

-- :name patience
-- A client that is frozen in the middle must not hold the gate for ever.
SET LOCAL idle_in_transaction_session_timeout = '60s';
