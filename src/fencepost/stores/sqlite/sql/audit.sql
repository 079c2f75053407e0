-- :name loose_tenants
SELECT DISTINCT tenant FROM audit WHERE place IS NULL ORDER BY tenant

-- :name last_seal
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM seal WHERE tenant = :tenant ORDER BY number DESC LIMIT 1

-- :name loose_entries
SELECT seq, tenant, at_us, actor, verb, subject, detail
  FROM audit WHERE tenant = :tenant AND place IS NULL ORDER BY seq LIMIT :limit

-- :name put_seal
INSERT INTO seal (tenant, number, first_place, last_place, hash, at_us, key_id, mac)
VALUES (:tenant, :number, :first_place, :last_place, :hash, :at_us, :key_id, :mac)
ON CONFLICT DO NOTHING
RETURNING number

-- :name put_links
UPDATE audit
   SET place = one.value ->> 1, hash = one.value ->> 2
  FROM json_each(:links) AS one
 WHERE audit.seq = one.value ->> 0 AND audit.place IS NULL
RETURNING audit.seq

-- :name seals_after
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM seal WHERE tenant = :tenant AND number > :number ORDER BY number LIMIT :limit

-- :name sealed_entries
SELECT coalesce(said_seq, seq), tenant, at_us, actor, verb, subject, detail, place, hash
  FROM audit WHERE tenant = :tenant AND place BETWEEN :first AND :last ORDER BY place

-- :name loose_count
SELECT count(*), min(at_us) FROM audit WHERE tenant = :tenant AND place IS NULL

-- :name beyond_seals
SELECT min(place) FROM audit WHERE tenant = :tenant AND place > :last
