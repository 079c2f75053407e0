-- :name compare
-- The one comparison, for fencepost_check and for the guard. Runs with the rights of the user who installed it, so that a
-- writer needs none on the table of marks; only a user who has those may lift a mark: asking here gives no rights.
CREATE OR REPLACE FUNCTION {compare}(
    shown_resources text, shown_fence bigint, shown_tenant text, shown_run text, shown_store text, may_lift boolean
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
    resource text;
    wanted text;
    mark record;
BEGIN
    IF coalesce(shown_resources, '') = '' OR coalesce(shown_fence, 0) <= 0 THEN
        RAISE EXCEPTION 'fencepost: no fence was shown, and this table is behind a gate'
            USING ERRCODE = 'FP077', HINT = 'Write through the gate, or SET fencepost.resource and fencepost.fence to those of your run.';
    END IF;
    IF shown_fence > {fence_max} THEN
        RAISE EXCEPTION 'fencepost: % is no fence, it lies beyond the year 2100', shown_fence USING ERRCODE = 'FP077';
    END IF;
    FOREACH resource IN ARRAY string_to_array(shown_resources, ' ') LOOP
        wanted := CASE WHEN split_part(resource, ':', 1) IN ('project', 'repo') THEN '*' ELSE shown_tenant END || ' ' || resource;
        PERFORM 1 FROM {table} WHERE key = '*' FOR SHARE;
        SELECT * INTO mark FROM {table} WHERE key = wanted;
        IF mark.fence = shown_fence OR NOT may_lift THEN
            SELECT * INTO mark FROM {table} WHERE key = wanted FOR SHARE;
        ELSE
            INSERT INTO {table} (key, fence, store, host, run_id, at_us) VALUES (wanted, 0, '', '', '', 0) ON CONFLICT (key) DO NOTHING;
            SELECT * INTO mark FROM {table} WHERE key = wanted FOR UPDATE;
        END IF;
        IF coalesce(mark.fence, 0) = 0 THEN
            SELECT * INTO mark FROM {table} WHERE key = '*' AND fence > 0;
        END IF;
        IF mark.store <> '' AND shown_store <> '' AND mark.store <> shown_store THEN
            RAISE EXCEPTION 'fencepost: % is fenced by store % on host %', resource, mark.store, mark.host USING ERRCODE = 'FP077';
        END IF;
        IF shown_fence < mark.fence OR (shown_fence = mark.fence AND mark.run_id <> '' AND shown_run <> '' AND mark.run_id <> shown_run) THEN
            RAISE EXCEPTION 'fencepost: fence % was seen for %, yours is %: a newer run has started, stop', mark.fence, resource, shown_fence
                USING ERRCODE = 'FP077';
        END IF;
        IF shown_fence > coalesce(mark.fence, 0) THEN
            IF NOT may_lift THEN
                RAISE EXCEPTION 'fencepost: this database was never raised to fence % for % of tenant %', shown_fence, resource, shown_tenant
                    USING ERRCODE = 'FP077', HINT = 'Declare the gate for the run, or raise it: fencepost gate raise.';
            END IF;
            UPDATE {table} SET fence = shown_fence, store = CASE WHEN shown_store = '' THEN store ELSE shown_store END, host = '',
                   run_id = shown_run, at_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
             WHERE key = wanted;
        END IF;
    END LOOP;
END $fencepost$;

-- :name check
-- For clients of any language: SELECT fencepost_check('lock:nightly', 42); before the writes of a transaction.
CREATE OR REPLACE FUNCTION {check}(
    shown_resources text, shown_fence bigint, shown_tenant text DEFAULT 'default', shown_run text DEFAULT '',
    shown_store text DEFAULT ''
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
    asking name := coalesce(nullif(current_setting('role', true), 'none'), session_user);
BEGIN
    PERFORM {compare}(
        shown_resources, shown_fence, shown_tenant, shown_run, shown_store, has_table_privilege(asking, '{table}', 'UPDATE')
    );
END $fencepost$;

-- :name guard
-- A trigger never lifts a mark: settings of a session are what its client says, and the first raise came before the run.
CREATE OR REPLACE FUNCTION {guard}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
    shown text := coalesce(current_setting('fencepost.resource', true), '');
    shown_tenant text := coalesce(nullif(current_setting('fencepost.tenant', true), ''), 'default');
BEGIN
    IF TG_NARGS > 0 AND TG_ARGV[0] <> '' AND NOT (TG_ARGV[0] = ANY (string_to_array(shown, ' '))) THEN
        RAISE EXCEPTION 'fencepost: %.% is written under %, which this session does not show', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
            USING ERRCODE = 'FP077', HINT = 'Write through the gate, or SET fencepost.resource and fencepost.fence to those of your run.';
    END IF;
    IF TG_NARGS > 1 AND TG_ARGV[1] <> '' AND TG_ARGV[1] <> shown_tenant THEN
        RAISE EXCEPTION 'fencepost: %.% is written for tenant %, not for %', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[1], shown_tenant
            USING ERRCODE = 'FP077';
    END IF;
    PERFORM {compare}(
        shown, nullif(current_setting('fencepost.fence', true), '')::bigint, shown_tenant,
        coalesce(current_setting('fencepost.run_id', true), ''), coalesce(current_setting('fencepost.store', true), ''), false
    );
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $fencepost$;

-- :name rights
-- By default every user may call a function. Only writers of the table may: no other holds the gate up, or sees fences.
DO $fencepost$
DECLARE
    writer text;
BEGIN
    REVOKE ALL ON FUNCTION {compare}(text, bigint, text, text, text, boolean) FROM PUBLIC;
    REVOKE ALL ON FUNCTION {check}(text, bigint, text, text, text) FROM PUBLIC;
    REVOKE ALL ON FUNCTION {guard}() FROM PUBLIC;
    FOR writer IN
        SELECT DISTINCT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
          FROM pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
         WHERE pg_class.oid = '{guarded}'::regclass AND acl.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION {check}(text, bigint, text, text, text) TO ' || writer;
    END LOOP;
END $fencepost$;

-- :name unguard
DO $fencepost$
DECLARE
    one record;
BEGIN
    FOR one IN
        WITH RECURSIVE tree AS (
            SELECT '{guarded}'::regclass::oid AS id
            UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.id
        )
        SELECT tgname, tgrelid::regclass AS place FROM pg_trigger JOIN tree ON tgrelid = tree.id
         WHERE NOT tgisinternal AND tgparentid = 0 AND starts_with(tgname, 'fencepost_guard')
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', one.tgname, one.place);
    END LOOP;
END $fencepost$;

-- :name trigger
-- A trigger on a statement is asked only at the table that the statement names. So every partition and heir has one; and
-- where rows may come by way of a parent, each row is asked about. New partitions get that one from PostgreSQL itself.
DO $fencepost$
DECLARE
    one record;
BEGIN
    FOR one IN
        WITH RECURSIVE tree AS (
            SELECT '{guarded}'::regclass::oid AS id
            UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.id
        )
        SELECT pg_class.oid::regclass AS place, (pg_class.oid = '{guarded}'::regclass OR NOT relispartition)
               AND (relkind = 'p' OR EXISTS (SELECT 1 FROM pg_inherits WHERE pg_class.oid IN (inhrelid, inhparent))) AS by_row
          FROM pg_class JOIN tree ON pg_class.oid = tree.id WHERE relkind IN ('r', 'p')
    LOOP
        EXECUTE format('CREATE TRIGGER fencepost_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION {guard}(%L, %L)', one.place, {resource}, {tenant});
        IF one.by_row THEN
            EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION {guard}(%L, %L)',
                'fencepost_guard_rows_' || '{guarded}'::regclass::oid, one.place, {resource}, {tenant});
        END IF;
    END LOOP;
END $fencepost$;
