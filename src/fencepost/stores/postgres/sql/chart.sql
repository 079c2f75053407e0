-- :name chart_attempts
-- Every try at the runs that were alive in a stretch of time, and the runs that were never tried, newest first.
SELECT run.id, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.ended_us, run.resume,
       run.cost_micro, attempt.number, attempt.fence, attempt.worker, attempt.started_us, attempt.ended_us,
       attempt.outcome, attempt.session
  FROM fencepost.run
  LEFT JOIN fencepost.attempt ON attempt.run_id = run.id
 WHERE run.tenant = %(tenant)s AND run.created_us >= %(since_us)s AND run.created_us < %(until_us)s
   AND (run.ended_us IS NULL OR run.ended_us >= %(from_us)s)
   AND (%(schedule)s = '' OR run.schedule = %(schedule)s) AND (%(project)s = '' OR run.project = %(project)s)
 ORDER BY run.created_us DESC, run.id DESC, attempt.fence DESC
 LIMIT %(limit)s

-- :name chart_bins
-- The same where there are too many to be told one by one: how many of each kind began in each part of the stretch.
SELECT schedule, agent, project, worker, state, (started_us - %(from_us)s) / %(bin_us)s, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s AND created_us < %(until_us)s
   AND started_us >= %(from_us)s AND started_us < %(until_us)s AND ended_us IS NOT NULL
   AND (%(schedule)s = '' OR schedule = %(schedule)s) AND (%(project)s = '' OR project = %(project)s)
 GROUP BY 1, 2, 3, 4, 5, 6

-- :name chart_ticks
-- The ticks of a stretch of time that made no run, with the project of their schedule's agent, newest first.
SELECT tick.schedule, schedule.manifest::jsonb ->> 'project', tick.tick_us, tick.tick_until_us, tick.count, tick.disposition
  FROM fencepost.tick
  LEFT JOIN fencepost.schedule ON schedule.tenant = tick.tenant AND schedule.name = tick.schedule
 WHERE tick.tenant = %(tenant)s AND tick.disposition <> 'run'
   AND tick.decided_us >= %(from_us)s AND tick.decided_us < %(decided_us)s
   AND tick.tick_us < %(until_us)s AND tick.tick_until_us >= %(from_us)s
   AND (%(schedule)s = '' OR tick.schedule = %(schedule)s)
 ORDER BY tick.decided_us DESC, tick.schedule DESC, tick.occurrence DESC
 LIMIT %(limit)s

-- :name chart_tick_bins
-- How many ticks were decided in each part of a stretch of time, by what became of them.
SELECT schedule, disposition, (decided_us - %(from_us)s) / %(bin_us)s, sum(count)::bigint
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND decided_us >= %(from_us)s AND decided_us < %(until_us)s
   AND (%(schedule)s = '' OR schedule = %(schedule)s)
 GROUP BY 1, 2, 3

-- :name chart_spans
-- What the newest runs of a schedule took and cost.
SELECT counted_us, started_us, ended_us, cost_micro, state
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us >= %(since_us)s AND started_us IS NOT NULL
 ORDER BY counted_us DESC
 LIMIT %(limit)s
