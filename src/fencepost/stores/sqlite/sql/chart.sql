-- :name chart_attempts
-- Every try at the runs that were alive in a stretch of time, and the runs that were never tried, newest first.
SELECT run.id, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.ended_us, run.resume,
       run.cost_micro, attempt.number, attempt.fence, attempt.worker, attempt.started_us, attempt.ended_us,
       attempt.outcome, attempt.session
  FROM run
  LEFT JOIN attempt ON attempt.run_id = run.id
 WHERE run.tenant = :tenant AND run.created_us >= :since_us AND run.created_us < :until_us
   AND (run.ended_us IS NULL OR run.ended_us >= :from_us)
   AND (:schedule = '' OR run.schedule = :schedule) AND (:project = '' OR run.project = :project)
 ORDER BY run.created_us DESC, run.id DESC, attempt.fence DESC
 LIMIT :limit

-- :name chart_bins
-- The same where there are too many to be told one by one: how many of each kind began in each part of the stretch.
SELECT schedule, agent, project, worker, state, (started_us - :from_us) / :bin_us, count(*), min(started_us),
       max(ended_us), sum(cost_micro)
  FROM run
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule) AND (:project = '' OR project = :project)
 GROUP BY 1, 2, 3, 4, 5, 6

-- :name chart_ticks
-- The ticks of a stretch of time that made no run, with the project of their schedule's agent, newest first.
SELECT tick.schedule, schedule.manifest ->> 'project', tick.tick_us, tick.tick_until_us, tick.count, tick.disposition
  FROM tick
  LEFT JOIN schedule ON schedule.tenant = tick.tenant AND schedule.name = tick.schedule
 WHERE tick.tenant = :tenant AND tick.disposition <> 'run'
   AND tick.decided_us >= :from_us AND tick.decided_us < :decided_us
   AND tick.tick_us < :until_us AND tick.tick_until_us >= :from_us
   AND (:schedule = '' OR tick.schedule = :schedule)
 ORDER BY tick.decided_us DESC, tick.schedule DESC, tick.occurrence DESC
 LIMIT :limit

-- :name chart_tick_bins
-- How many ticks were decided in each part of a stretch of time, by what became of them.
SELECT schedule, disposition, (decided_us - :from_us) / :bin_us, sum(count)
  FROM tick
 WHERE tenant = :tenant AND decided_us >= :from_us AND decided_us < :until_us
   AND (:schedule = '' OR schedule = :schedule)
 GROUP BY 1, 2, 3

-- :name chart_spans
-- What the newest runs of a schedule took and cost.
SELECT counted_us, started_us, ended_us, cost_micro, state
  FROM run
 WHERE tenant = :tenant AND schedule = :schedule AND counted_us >= :since_us AND started_us IS NOT NULL
 ORDER BY counted_us DESC
 LIMIT :limit
