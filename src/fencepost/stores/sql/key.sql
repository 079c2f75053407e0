-- :name key
SELECT id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants
  FROM fencepost.access_key
 WHERE id = :id AND tenant = :tenant

-- :name key_in_force
-- A session ends with what it came from; a link that was used is revoked and leaves its session alone.
SELECT one.id, one.tenant, one.kind, one.name, one.role, one.parent, one.created_us, one.created_by, one.expires_us,
       one.revoked_us, one.all_tenants, one.hash
  FROM fencepost.access_key AS one
  LEFT JOIN fencepost.access_key AS parent ON parent.id = one.parent
 WHERE one.id = :id AND one.revoked_us IS NULL AND (one.expires_us IS NULL OR one.expires_us > fencepost.clock_us())
   AND (parent.kind IS NULL OR parent.kind <> 'key'
        OR (parent.revoked_us IS NULL AND (parent.expires_us IS NULL OR parent.expires_us > fencepost.clock_us())))

-- :name list_keys
SELECT id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants
  FROM fencepost.access_key
 WHERE tenant = :tenant AND (:kind = '' OR kind = :kind)
   AND (created_us, id) < (:before_us, :before)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name revoke_key
UPDATE fencepost.access_key SET revoked_us = fencepost.clock_us()
 WHERE id = :id AND tenant = :tenant AND revoked_us IS NULL
RETURNING id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants

-- :name use_link
-- The first caller has it.
UPDATE fencepost.access_key SET revoked_us = fencepost.clock_us()
 WHERE id = :id AND kind = 'link' AND hash = :hash AND revoked_us IS NULL AND expires_us > fencepost.clock_us()
RETURNING id

-- :name drop_old_keys
DELETE FROM fencepost.access_key WHERE kind <> 'key' AND expires_us < fencepost.clock_us() - :kept_us

-- :name put_key
INSERT INTO fencepost.access_key (id, tenant, kind, name, role, hash, parent, created_us, created_by, expires_us, all_tenants)
SELECT :id, :tenant, :kind, :name, :role, :hash, :parent, fencepost.clock_us(), :by,
       CASE WHEN :expires_after_us::bigint IS NULL THEN NULL ELSE fencepost.clock_us() + :expires_after_us::bigint END,
       :all_tenants
 WHERE true
ON CONFLICT (id) DO NOTHING
RETURNING id, tenant, kind, name, role, parent, created_us, created_by, expires_us, revoked_us, all_tenants
