-- :name put_notices
-- Only for those who want to hear of it; who wants several words of one notice gets it once.
INSERT INTO fencepost.notice (id, tenant, owner, name, event, subject, body, at_us, due_us)
SELECT DISTINCT one.key || chr(10) || wish.owner || chr(10) || wish.name, wish.tenant, wish.owner, wish.name,
       one.event, one.subject, one.body, fencepost.clock_us(), fencepost.clock_us()
  FROM jsonb_to_recordset(%(notices)s::jsonb) AS one (
       tenant text, key text, event text, events jsonb, subject text, schedule text, body text)
 CROSS JOIN LATERAL jsonb_array_elements_text(one.events) AS word
  JOIN fencepost.wish ON wish.tenant = one.tenant AND wish.event = word.value AND wish.schedule IN ('', one.schedule)
ON CONFLICT (id) DO NOTHING

-- :name any_wish
SELECT 1 FROM fencepost.wish
 WHERE tenant IN (SELECT value FROM jsonb_array_elements_text(%(tenants)s::jsonb))
   AND event IN (SELECT value FROM jsonb_array_elements_text(%(events)s::jsonb))
 LIMIT 1

-- :name put_wishes
INSERT INTO fencepost.wish (tenant, owner, name, event, schedule)
SELECT %(tenant)s, %(owner)s, one.value ->> 0, one.value ->> 1, one.value ->> 2
  FROM jsonb_array_elements(%(wishes)s::jsonb) AS one
ON CONFLICT DO NOTHING

-- :name drop_unwished
-- A target that is not there any more will never be told.
DELETE FROM fencepost.notice
 WHERE tenant = %(tenant)s AND owner = %(owner)s AND state = 'waiting'
   AND name NOT IN (SELECT value FROM jsonb_array_elements_text(%(names)s::jsonb))

-- :name claim_notices
-- The oldest of each subject first; a worker that has claimed one has it until its time is up.
UPDATE fencepost.notice
   SET attempt = attempt + 1, due_us = fencepost.clock_us() + %(hold_us)s
 WHERE seq IN (SELECT seq FROM fencepost.notice AS one
                WHERE tenant = %(tenant)s AND owner = %(owner)s AND state = 'waiting'
                  AND due_us <= (SELECT fencepost.clock_us())
                  AND name IN (SELECT value FROM jsonb_array_elements_text(%(names)s::jsonb))
                  AND NOT EXISTS (SELECT 1 FROM fencepost.notice AS older
                                   WHERE older.tenant = one.tenant AND older.owner = one.owner AND older.name = one.name
                                     AND older.subject = one.subject AND older.seq < one.seq
                                     AND older.state = 'waiting')
                ORDER BY due_us, seq
                LIMIT %(limit)s
                  FOR UPDATE OF one SKIP LOCKED)
RETURNING id, name, event, subject, body, at_us, attempt
