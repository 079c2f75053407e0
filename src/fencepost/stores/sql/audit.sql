-- :name loose_tenants
SELECT DISTINCT tenant FROM fencepost.audit WHERE place IS NULL ORDER BY tenant

-- :name last_seal
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM fencepost.seal WHERE tenant = :tenant ORDER BY number DESC LIMIT 1

-- :name loose_entries
SELECT seq, tenant, at_us, actor, verb, subject, detail
  FROM fencepost.audit WHERE tenant = :tenant AND place IS NULL ORDER BY seq LIMIT :limit

-- :name put_seal
INSERT INTO fencepost.seal (tenant, number, first_place, last_place, hash, at_us, key_id, mac)
VALUES (:tenant, :number, :first_place, :last_place, :hash, :at_us, :key_id, :mac)
ON CONFLICT DO NOTHING
RETURNING number

-- :name seals_after
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM fencepost.seal WHERE tenant = :tenant AND number > :number ORDER BY number LIMIT :limit

-- :name sealed_entries
SELECT coalesce(said_seq, seq), tenant, at_us, actor, verb, subject, detail, place, hash
  FROM fencepost.audit WHERE tenant = :tenant AND place BETWEEN :first AND :last ORDER BY place

-- :name loose_count
SELECT count(*), min(at_us) FROM fencepost.audit WHERE tenant = :tenant AND place IS NULL

-- :name beyond_seals
-- A pack that begins under a seal has the next place, too.
SELECT min(place)
  FROM (SELECT min(place) AS place FROM fencepost.audit WHERE tenant = :tenant AND place > :last
        UNION ALL
        SELECT min(CASE WHEN first_place > :last THEN first_place ELSE :last + 1 END)
          FROM fencepost.audit_pack WHERE tenant = :tenant AND last_place > :last) AS beyond
