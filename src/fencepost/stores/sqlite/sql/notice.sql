-- :name put_notices
-- Only for those who want to hear of it; who wants several words of one notice gets it once.
INSERT INTO notice (id, tenant, owner, name, event, subject, body, at_us, due_us)
SELECT DISTINCT one.value ->> 'key' || char(10) || wish.owner || char(10) || wish.name, wish.tenant, wish.owner, wish.name,
       one.value ->> 'event', one.value ->> 'subject', one.value ->> 'body', wall_us(), wall_us()
  FROM json_each(:notices) AS one
 CROSS JOIN json_each(one.value -> 'events') AS word
  JOIN wish ON wish.tenant = one.value ->> 'tenant' AND wish.event = word.value
           AND wish.schedule IN ('', one.value ->> 'schedule')
 WHERE true
ON CONFLICT (id) DO NOTHING

-- :name any_wish
SELECT 1 FROM wish
 WHERE tenant IN (SELECT value FROM json_each(:tenants))
   AND event IN (SELECT value FROM json_each(:events))
 LIMIT 1

-- :name put_wishes
INSERT INTO wish (tenant, owner, name, event, schedule)
SELECT :tenant, :owner, value ->> 0, value ->> 1, value ->> 2 FROM json_each(:wishes)
 WHERE true
ON CONFLICT DO NOTHING

-- :name drop_unwished
-- A target that is not there any more will never be told.
DELETE FROM notice
 WHERE tenant = :tenant AND owner = :owner AND state = 'waiting'
   AND name NOT IN (SELECT value FROM json_each(:names))

-- :name claim_notices
-- The oldest of each subject first; a worker that has claimed one has it until its time is up.
UPDATE notice
   SET attempt = attempt + 1, due_us = wall_us() + :hold_us
 WHERE seq IN (SELECT seq FROM notice AS one
                WHERE tenant = :tenant AND owner = :owner AND state = 'waiting' AND due_us <= wall_us()
                  AND name IN (SELECT value FROM json_each(:names))
                  AND NOT EXISTS (SELECT 1 FROM notice AS older
                                   WHERE older.tenant = one.tenant AND older.owner = one.owner AND older.name = one.name
                                     AND older.subject = one.subject AND older.seq < one.seq
                                     AND older.state = 'waiting')
                ORDER BY due_us, seq
                LIMIT :limit)
RETURNING id, name, event, subject, body, at_us, attempt
