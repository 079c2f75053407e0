-- :name loose_tenants
SELECT DISTINCT tenant FROM fencepost.audit WHERE place IS NULL ORDER BY tenant

-- :name last_seal
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM fencepost.seal WHERE tenant = %(tenant)s ORDER BY number DESC LIMIT 1

-- :name loose_entries
SELECT seq, tenant, at_us, actor, verb, subject, detail
  FROM fencepost.audit WHERE tenant = %(tenant)s AND place IS NULL ORDER BY seq LIMIT %(limit)s

-- :name put_seal
INSERT INTO fencepost.seal (tenant, number, first_place, last_place, hash, at_us, key_id, mac)
VALUES (%(tenant)s, %(number)s, %(first_place)s, %(last_place)s, %(hash)s, %(at_us)s, %(key_id)s, %(mac)s)
ON CONFLICT DO NOTHING
RETURNING number

-- :name put_links
UPDATE fencepost.audit
   SET place = (one.value ->> 1)::bigint, hash = one.value ->> 2
  FROM jsonb_array_elements(%(links)s::jsonb) AS one
 WHERE audit.seq = (one.value ->> 0)::bigint AND audit.place IS NULL
RETURNING audit.seq

-- :name seals_after
SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac
  FROM fencepost.seal WHERE tenant = %(tenant)s AND number > %(number)s ORDER BY number LIMIT %(limit)s

-- :name sealed_entries
SELECT coalesce(said_seq, seq), tenant, at_us, actor, verb, subject, detail, place, hash
  FROM fencepost.audit WHERE tenant = %(tenant)s AND place BETWEEN %(first)s AND %(last)s ORDER BY place

-- :name loose_count
SELECT count(*), min(at_us) FROM fencepost.audit WHERE tenant = %(tenant)s AND place IS NULL

-- :name beyond_seals
SELECT min(place) FROM fencepost.audit WHERE tenant = %(tenant)s AND place > %(last)s
