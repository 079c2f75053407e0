-- :name keep_manifests
-- A transaction that finds a note of today writes nothing, and waits for none.
INSERT INTO fencepost.manifest (tenant, hash, definition, used_us)
SELECT tenant, hash, definition, fencepost.clock_us()
  FROM jsonb_to_recordset(%(manifests)s::jsonb) AS one (tenant text, hash text, definition text)
 WHERE NOT EXISTS (SELECT 1 FROM fencepost.manifest AS known
                    WHERE known.tenant = one.tenant AND known.hash = one.hash
                      AND known.used_us > fencepost.clock_us() - %(fresh_us)s::bigint)
 ORDER BY tenant, hash
ON CONFLICT (tenant, hash) DO UPDATE SET used_us = excluded.used_us

-- :name manifests_of
SELECT hash, definition
  FROM fencepost.manifest
 WHERE tenant = %(tenant)s AND hash = ANY (ARRAY(SELECT jsonb_array_elements_text(%(hashes)s::jsonb)))
