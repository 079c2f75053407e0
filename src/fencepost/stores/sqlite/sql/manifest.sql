-- :name keep_manifests
-- Who finds a note of today writes nothing.
INSERT INTO manifest (tenant, hash, definition, used_us)
SELECT value ->> 'tenant', value ->> 'hash', value ->> 'definition', wall_us()
  FROM json_each(:manifests)
 WHERE NOT EXISTS (SELECT 1 FROM manifest AS known
                    WHERE known.tenant = value ->> 'tenant' AND known.hash = value ->> 'hash'
                      AND known.used_us > wall_us() - :fresh_us)
ON CONFLICT (tenant, hash) DO UPDATE SET used_us = excluded.used_us

-- :name manifests_of
SELECT hash, definition
  FROM manifest
 WHERE tenant = :tenant AND hash IN (SELECT value FROM json_each(:hashes))
