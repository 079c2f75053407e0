-- :name look_packs
-- Newest first; of what is in them only what tells whether to open them.
SELECT last_place, last_seq, verbs, names
  FROM fencepost.audit_pack
 WHERE tenant = :tenant AND last_seq < :below_seq AND last_seq > :above_seq
   AND first_seq < :before_seq AND first_us <= :until_us
 ORDER BY last_seq DESC
 LIMIT :limit

-- :name pack_content
SELECT content, hashes FROM fencepost.audit_pack WHERE tenant = :tenant AND last_place = :last_place

-- :name packs_between
-- Packs lie side by side: the first that reaches to the last place is the last that is wanted.
SELECT first_place, last_place, content, hashes
  FROM fencepost.audit_pack
 WHERE tenant = :tenant AND last_place >= :first AND first_place <= :last
   AND last_place <= coalesce((SELECT min(last_place) FROM fencepost.audit_pack
                                WHERE tenant = :tenant AND last_place >= :last), :last)
 ORDER BY last_place

-- :name sealed_tenants
-- From one to the next: there are few tenants and many seals.
WITH RECURSIVE sealed(tenant) AS (
    SELECT min(tenant) FROM fencepost.seal
    UNION ALL
    SELECT (SELECT min(seal.tenant) FROM fencepost.seal WHERE seal.tenant > sealed.tenant)
      FROM sealed WHERE sealed.tenant IS NOT NULL)
SELECT tenant FROM sealed WHERE tenant IS NOT NULL

-- :name count_packable
SELECT count(*)
  FROM (SELECT 1 FROM fencepost.audit WHERE tenant = :tenant AND place > :after AND place <= :until LIMIT :limit) AS old

-- :name take_packable
-- What is deleted here is what goes into the pack: if another process was quicker, nothing is.
DELETE FROM fencepost.audit
 WHERE seq IN (SELECT seq FROM fencepost.audit
                WHERE tenant = :tenant AND place > :after AND place <= :until ORDER BY place LIMIT :limit)
RETURNING seq, at_us, place, said_seq, actor, verb, subject, detail, hash

-- :name packed_until
SELECT max(last_place) FROM fencepost.audit_pack WHERE tenant = :tenant

-- :name put_pack
INSERT INTO fencepost.audit_pack
       (tenant, first_place, last_place, first_seq, last_seq, first_us, entries, verbs, names, content, hashes)
VALUES (:tenant, :first_place, :last_place, :first_seq, :last_seq, :first_us, :entries, :verbs, :names, :content, :hashes)

-- :name raise_needs
UPDATE fencepost.meta SET value = :schema WHERE key = 'schema_needs' AND CAST(value AS bigint) < CAST(:schema AS bigint)
