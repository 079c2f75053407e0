-- :name chart_attempts
-- Every try at the runs that were alive in a stretch of time, and the runs that were never tried, newest first.
SELECT run.id, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.ended_us, run.resume,
       run.cost_micro, attempt.number, attempt.fence, attempt.worker, attempt.started_us, attempt.ended_us,
       attempt.outcome, attempt.session
  FROM fencepost.run
  LEFT JOIN fencepost.attempt ON attempt.run_id = run.id
 WHERE run.tenant = :tenant AND run.created_us >= :since_us AND run.created_us < :until_us
   AND (run.ended_us IS NULL OR run.ended_us >= :from_us)
   AND (:schedule = '' OR run.schedule = :schedule) AND (:project = '' OR run.project = :project)
 ORDER BY run.created_us DESC, run.id DESC, attempt.fence DESC
 LIMIT :limit

-- :name chart_bins
-- The same where there are too many to be told one by one: how many of each kind began in each part of the stretch.
SELECT (started_us - :from_us) / :bin_us, schedule, agent, NULL, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule)
 GROUP BY 1, 2, 3, 6

-- :name chart_bins_of_projects
-- The same by project.
SELECT (started_us - :from_us) / :bin_us, schedule, agent, project, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule) AND (:project = '' OR project = :project)
 GROUP BY 1, 2, 3, 4, 6

-- :name chart_bins_of_workers
-- The same by the worker of the last attempt: a run that has ended has no worker any more.
SELECT (run.started_us - :from_us) / :bin_us, NULL, '', NULL, attempt.worker, run.state, count(*), min(run.started_us),
       max(run.ended_us), sum(run.cost_micro)::bigint
  FROM fencepost.run
  JOIN fencepost.attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
 WHERE run.tenant = :tenant AND run.created_us >= :since_us AND run.created_us < :until_us
   AND run.started_us >= :from_us AND run.started_us < :until_us AND run.ended_us IS NOT NULL
   AND (:schedule = '' OR run.schedule = :schedule) AND (:project = '' OR run.project = :project)
 GROUP BY 1, 5, 6

-- :name chart_ticks
-- The ticks of a stretch of time that made no run, with the project of their schedule's agent, newest first.
SELECT tick.schedule, schedule.manifest::jsonb ->> 'project', tick.tick_us, tick.tick_until_us, tick.count, tick.disposition
  FROM fencepost.tick
  LEFT JOIN fencepost.schedule ON schedule.tenant = tick.tenant AND schedule.name = tick.schedule
 WHERE tick.tenant = :tenant AND tick.disposition <> 'run'
   AND tick.decided_us >= :from_us AND tick.decided_us < :decided_us
   AND tick.tick_us < :until_us AND tick.tick_until_us >= :from_us
   AND (:schedule = '' OR tick.schedule = :schedule)
 ORDER BY tick.decided_us DESC, tick.schedule DESC, tick.occurrence DESC
 LIMIT :limit

-- :name chart_made
-- How many runs were made in a stretch of time, up to a limit: asked before each of them is read.
SELECT count(*) FROM (
    SELECT 1 FROM fencepost.run
     WHERE :schedule = '' AND tenant = :tenant AND created_us >= :from_us AND created_us < :until_us
       AND (:project = '' OR project = :project)
    UNION ALL
    SELECT 1 FROM fencepost.run
     WHERE :schedule <> '' AND tenant = :tenant AND schedule = :schedule
       AND counted_us >= :from_us AND counted_us < :until_us AND (:project = '' OR project = :project)
     LIMIT :limit) AS made
