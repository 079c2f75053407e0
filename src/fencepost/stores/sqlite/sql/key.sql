-- :name put_key
INSERT INTO access_key (id, tenant, kind, name, role, hash, parent, created_us, created_by, expires_us, all_tenants)
SELECT :id, :tenant, :kind, :name, :role, :hash, :parent, wall_us(), :by,
       CASE WHEN :expires_after_us IS NULL THEN NULL ELSE wall_us() + :expires_after_us END,
       :all_tenants
 WHERE true
ON CONFLICT (id) DO NOTHING
RETURNING id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants
