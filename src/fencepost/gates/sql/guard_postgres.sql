-- :name check
-- For clients of any language: SELECT fencepost_check('lock:nightly', 42); before the writes of a transaction.
-- Runs with the rights of whoever installed it, so that a writer needs none on the table of marks.
CREATE OR REPLACE FUNCTION {check}(
    shown_resources text, shown_fence bigint, shown_tenant text DEFAULT 'default', shown_run text DEFAULT '',
    shown_store text DEFAULT ''
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    resource text;
    wanted text;
    mark record;
BEGIN
    IF coalesce(shown_resources, '') = '' OR coalesce(shown_fence, 0) <= 0 THEN
        RAISE EXCEPTION 'fencepost: no fence was shown, and this table is behind a gate'
            USING ERRCODE = 'FP077', HINT = 'Write through the gate, or SET fencepost.resource and fencepost.fence to those of your run.';
    END IF;
    FOREACH resource IN ARRAY string_to_array(shown_resources, ' ') LOOP
        wanted := CASE WHEN split_part(resource, ':', 1) IN ('project', 'repo') THEN '*' ELSE shown_tenant END || ' ' || resource;
        PERFORM 1 FROM {table} WHERE key = '*' FOR SHARE;
        SELECT * INTO mark FROM {table} WHERE key = wanted;
        IF mark.fence = shown_fence THEN
            SELECT * INTO mark FROM {table} WHERE key = wanted FOR SHARE;
        ELSE
            INSERT INTO {table} (key, fence, store, host, run_id, at_us) VALUES (wanted, 0, '', '', '', 0) ON CONFLICT (key) DO NOTHING;
            SELECT * INTO mark FROM {table} WHERE key = wanted FOR UPDATE;
        END IF;
        IF mark.fence = 0 AND EXISTS (SELECT 1 FROM {table} WHERE key = '*' AND fence > 0) THEN
            SELECT * INTO mark FROM {table} WHERE key = '*';
        END IF;
        IF mark.store <> '' AND shown_store <> '' AND mark.store <> shown_store THEN
            RAISE EXCEPTION 'fencepost: % is fenced by store % on host %', resource, mark.store, mark.host USING ERRCODE = 'FP077';
        END IF;
        IF shown_fence < mark.fence OR (shown_fence = mark.fence AND mark.run_id <> '' AND shown_run <> '' AND mark.run_id <> shown_run) THEN
            RAISE EXCEPTION 'fencepost: fence % was seen for %, yours is %: a newer run has started, stop', mark.fence, resource, shown_fence
                USING ERRCODE = 'FP077';
        END IF;
        IF shown_fence > mark.fence THEN
            UPDATE {table} SET fence = shown_fence, store = CASE WHEN shown_store = '' THEN store ELSE shown_store END, host = '',
                   run_id = shown_run, at_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
             WHERE key = wanted;
        END IF;
    END LOOP;
END $body$;

-- :name guard
CREATE OR REPLACE FUNCTION {guard}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    shown text := coalesce(current_setting('fencepost.resource', true), '');
BEGIN
    IF TG_NARGS > 0 AND NOT (TG_ARGV[0] = ANY (string_to_array(shown, ' '))) THEN
        RAISE EXCEPTION 'fencepost: %.% is written under %, which this session does not show', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
            USING ERRCODE = 'FP077', HINT = 'Write through the gate, or SET fencepost.resource and fencepost.fence to those of your run.';
    END IF;
    PERFORM {check}(
        shown, nullif(current_setting('fencepost.fence', true), '')::bigint,
        coalesce(nullif(current_setting('fencepost.tenant', true), ''), 'default'),
        coalesce(current_setting('fencepost.run_id', true), ''), coalesce(current_setting('fencepost.store', true), '')
    );
    RETURN NULL;
END $body$;

-- :name unguard
DROP TRIGGER IF EXISTS fencepost_guard ON {guarded};

-- :name trigger
CREATE TRIGGER fencepost_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {guarded}
    FOR EACH STATEMENT EXECUTE FUNCTION {guard}({resource});
