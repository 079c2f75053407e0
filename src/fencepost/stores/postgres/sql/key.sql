-- :name put_key
INSERT INTO fencepost.access_key (id, tenant, kind, name, role, hash, parent, created_us, created_by, expires_us, all_tenants)
SELECT %(id)s, %(tenant)s, %(kind)s, %(name)s, %(role)s, %(hash)s, %(parent)s, fencepost.clock_us(), %(by)s,
       CASE WHEN %(expires_after_us)s::bigint IS NULL THEN NULL ELSE fencepost.clock_us() + %(expires_after_us)s::bigint END,
       %(all_tenants)s
ON CONFLICT (id) DO NOTHING
RETURNING id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants
