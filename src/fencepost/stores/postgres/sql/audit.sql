-- :name put_links
UPDATE fencepost.audit
   SET place = (one.value ->> 1)::bigint, hash = one.value ->> 2
  FROM jsonb_array_elements(%(links)s::jsonb) AS one
 WHERE audit.seq = (one.value ->> 0)::bigint AND audit.place IS NULL
RETURNING audit.seq
