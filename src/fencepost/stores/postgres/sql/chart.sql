-- :name chart_made
-- How many runs were made in a stretch of time, up to a limit: asked before each of them is read.
SELECT count(*) FROM (
    SELECT 1 FROM fencepost.run
     WHERE %(schedule)s = '' AND tenant = %(tenant)s AND created_us >= %(from_us)s AND created_us < %(until_us)s
       AND (%(project)s = '' OR project = %(project)s)
    UNION ALL
    SELECT 1 FROM fencepost.run
     WHERE %(schedule)s <> '' AND tenant = %(tenant)s AND schedule = %(schedule)s
       AND counted_us >= %(from_us)s AND counted_us < %(until_us)s AND (%(project)s = '' OR project = %(project)s)
     LIMIT %(limit)s) AS made

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
SELECT (started_us - %(from_us)s) / %(bin_us)s, schedule, agent, NULL, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s AND created_us < %(until_us)s
   AND started_us >= %(from_us)s AND started_us < %(until_us)s AND ended_us IS NOT NULL
   AND (%(schedule)s = '' OR schedule = %(schedule)s)
 GROUP BY 1, 2, 3, 6

-- :name chart_bins_of_projects
-- The same by project.
SELECT (started_us - %(from_us)s) / %(bin_us)s, schedule, agent, project, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s AND created_us < %(until_us)s
   AND started_us >= %(from_us)s AND started_us < %(until_us)s AND ended_us IS NOT NULL
   AND (%(schedule)s = '' OR schedule = %(schedule)s) AND (%(project)s = '' OR project = %(project)s)
 GROUP BY 1, 2, 3, 4, 6

-- :name chart_bins_of_workers
-- The same by the worker of the last attempt: a run that has ended has no worker any more.
SELECT (run.started_us - %(from_us)s) / %(bin_us)s, NULL, '', NULL, attempt.worker, run.state, count(*), min(run.started_us),
       max(run.ended_us), sum(run.cost_micro)::bigint
  FROM fencepost.run
  JOIN fencepost.attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
 WHERE run.tenant = %(tenant)s AND run.created_us >= %(since_us)s AND run.created_us < %(until_us)s
   AND run.started_us >= %(from_us)s AND run.started_us < %(until_us)s AND run.ended_us IS NOT NULL
   AND (%(schedule)s = '' OR run.schedule = %(schedule)s) AND (%(project)s = '' OR run.project = %(project)s)
 GROUP BY 1, 5, 6

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
SELECT (decided_us - %(from_us)s) / %(bin_us)s, disposition, sum(count)::bigint
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND decided_us >= %(from_us)s AND decided_us < %(until_us)s
 GROUP BY 1, 2

-- :name chart_days
-- What the runs of a schedule took and cost, by the day on which they count; edges is where each day begins.
SELECT width_bucket(counted_us, ARRAY(SELECT jsonb_array_elements_text(%(edges)s::jsonb)::bigint)) - 1,
       count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'cancelled'),
       count(*) FILTER (WHERE state = 'dead'), percentile_cont(0.5) WITHIN GROUP (ORDER BY ended_us - started_us),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ended_us - started_us), coalesce(sum(cost_micro), 0)::bigint
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us >= %(from_us)s AND counted_us < %(until_us)s
   AND started_us IS NOT NULL
 GROUP BY 1
