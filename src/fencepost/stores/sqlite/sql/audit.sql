-- :name put_links
UPDATE audit
   SET place = one.value ->> 1, hash = one.value ->> 2
  FROM json_each(:links) AS one
 WHERE audit.seq = one.value ->> 0 AND audit.place IS NULL
RETURNING audit.seq
