-- :name drop_wishes
DELETE FROM fencepost.wish WHERE tenant = :tenant AND owner = :owner

-- :name settle_notice
UPDATE fencepost.notice
   SET state = :state, due_us = fencepost.clock_us() + :again_us, error = :error
 WHERE id = :id AND attempt = :attempt AND state = 'waiting'
RETURNING id

-- :name expire_notices
UPDATE fencepost.notice SET state = 'dead', error = coalesce(error, 'it was not delivered in time')
 WHERE tenant = :tenant AND state = 'waiting' AND at_us < fencepost.clock_us() - :age_us

-- :name forget_notices
DELETE FROM fencepost.notice
 WHERE seq IN (SELECT seq FROM fencepost.notice
                WHERE tenant = :tenant AND state = :state AND at_us < fencepost.clock_us() - :age_us
                ORDER BY at_us LIMIT :limit)
RETURNING seq

-- :name list_notices
SELECT name, event, subject, state, attempt, at_us, due_us, error, seq
  FROM fencepost.notice WHERE tenant = :tenant AND (:state = '' OR state = :state)
   AND (:event = '' OR event = :event) AND (:name = '' OR name = :name)
   AND (at_us, seq) < (:before_us, :before_seq)
 ORDER BY at_us DESC, seq DESC LIMIT :limit

-- :name revive_notices
-- Once more: the attempt goes on counting, because it is what tells deliverers apart.
UPDATE fencepost.notice SET state = 'waiting', due_us = fencepost.clock_us()
 WHERE tenant = :tenant AND state = 'dead' AND name = :name
RETURNING id

-- :name notice_health
SELECT count(*) FILTER (WHERE state = 'waiting' AND due_us < fencepost.clock_us() - :late_us),
       count(*) FILTER (WHERE state = 'waiting'),
       count(*) FILTER (WHERE state = 'dead'),
       (SELECT name || ': ' || coalesce(error, 'unknown') FROM fencepost.notice
         WHERE tenant = :tenant AND state = 'dead' ORDER BY at_us DESC LIMIT 1)
  FROM fencepost.notice WHERE tenant = :tenant AND state IN ('waiting', 'dead')
