-- What SQLite does to many runs of one batch that lie side by side: from the first to the last, in one pass (see spans.py).

-- :name between
SELECT count(*) FROM (SELECT 1 FROM run WHERE id BETWEEN :first AND :last LIMIT :limit)

-- :name lane_take
UPDATE run
   SET state = 'running', reason = NULL, attempt = 1, stop = NULL, lease_id = :lease_id, worker = :worker,
       fence = :fence, started_us = :now_us
 WHERE id BETWEEN :first AND :last AND +state = 'ready'

-- :name settle_batch
UPDATE run
   SET state = :state, reason = NULL, resume = false, ended_us = :now_us, exit_code = :exit_code, lease_id = NULL,
       worker = NULL
 WHERE id BETWEEN :first AND :last AND +fence = :fence AND +lease_id = :lease_id AND +state = 'running'

-- :name end_batch
UPDATE attempt
   SET ended_us = coalesce(ended_us, wall_us()), outcome = :outcome, exit_code = :exit_code
 WHERE run_id BETWEEN :first AND :last AND fence = :fence
