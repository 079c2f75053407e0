-- :name next_tenant_with_runs
SELECT min(tenant) FROM fencepost.run WHERE tenant > :tenant

-- :name newest_run
-- By its fence the tenants take turns: it stays where it is.
SELECT id FROM fencepost.run WHERE tenant = :tenant ORDER BY created_us DESC, id DESC LIMIT 1

-- :name count_past
-- What can be moved, nearly: a run with several attempts, or an odd value, stays where it is.
SELECT count(*)
  FROM fencepost.run
 WHERE tenant = :tenant AND created_us <= :until_us AND state = 'succeeded' AND ended_us <= :ended_us
   AND request_key IS NULL AND origin IS NULL AND manifest = '' AND id <> :newest
   AND (counted_us <= :spending_us OR coalesce(cost_micro, reserved_micro) = 0)

-- :name past_page
-- The oldest runs, each with whether it can be moved, and what it shares with others. Counted, because PostgreSQL would read
-- all attempts to see which of them do not exist.
SELECT run.id, run.created_us,
       run.state = 'succeeded' AND run.ended_us <= :ended_us
       AND run.request_key IS NULL AND run.origin IS NULL AND run.manifest = '' AND run.id <> :newest
       AND (run.counted_us <= :spending_us OR coalesce(run.cost_micro, run.reserved_micro) = 0)
       AND (run.idempotency_key = run.id
            OR (length(run.idempotency_key) = 64 AND ltrim(run.idempotency_key, '0123456789abcdef') = ''))
       AND attempt.run_id IS NOT NULL
       AND (SELECT count(*) FROM fencepost.attempt AS other WHERE other.run_id = run.id) = 1
       AND NOT EXISTS (SELECT 1 FROM fencepost.unfolded
                        WHERE unfolded.tenant = :tenant AND unfolded.run_id = run.id),
       run.fence, run.agent, run.version, run.trigger, run.manifest_hash, run.resources, run.lease_max, run.lines_up,
       run.priority, run.rank, run.reason, run.attempt, run.resume, run.exit_code, run.reserved_micro, run.log,
       run.project, run.in_process, attempt.outcome,
       run.give_up_us - run.waiting_us, run.period_start_us - run.tick_us, run.period_end_us - run.tick_us
  FROM fencepost.run
  LEFT JOIN fencepost.attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
 WHERE run.tenant = :tenant AND run.created_us <= :until_us AND (run.created_us, run.id) > (:after_us, :after)
 ORDER BY run.created_us, run.id
 LIMIT :limit

-- :name put_past_common
INSERT INTO fencepost.past_common
       (tenant, number, hash, newest_us, agent, version, trigger, manifest_hash, resources, lease_max, lines_up, priority,
        rank, reason, attempt, resume, exit_code, reserved_micro, log, project, in_process, outcome, give_up,
        period_start, period_end)
VALUES (:tenant, (SELECT coalesce(max(number), 0) + 1 FROM fencepost.past_common WHERE tenant = :tenant), :hash,
        :newest_us, :agent, :version, :trigger, :manifest_hash, :resources, :lease_max, :lines_up, :priority,
        :rank, :reason, :attempt, :resume, :exit_code, :reserved_micro, :log, :project, :in_process, :outcome, :give_up,
        :period_start, :period_end)
ON CONFLICT (tenant, hash) DO UPDATE SET newest_us = greatest(past_common.newest_us, excluded.newest_us)
RETURNING number

-- :name past_run
SELECT * FROM fencepost.past_plain WHERE id = :id AND tenant = :tenant

-- :name touch_past_run
UPDATE fencepost.past_run SET requests = coalesce(requests, 1) + 1 WHERE id = :id

-- :name prune_past_commons
-- Let go of what no run shares any more: none is left that is as old as the newest that had it.
DELETE FROM fencepost.past_common
 WHERE tenant = :tenant
   AND NOT EXISTS (SELECT 1 FROM fencepost.past_run
                    WHERE past_run.tenant = :tenant AND past_run.created_us <= past_common.newest_us)
