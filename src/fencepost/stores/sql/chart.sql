-- :name chart_attempts
-- Every try at the runs that were alive in a stretch of time, and the runs that were never tried, newest first.
SELECT id, schedule, agent, project, state, reason, created_us, ended_us, resume, cost_micro,
       number, fence, worker, attempt_started_us, attempt_ended_us, outcome, session
  FROM fencepost.try_seen
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND (ended_us IS NULL OR ended_us >= :from_us)
   AND (:schedule = '' OR schedule = :schedule) AND (:project = '' OR project = :project)
 ORDER BY created_us DESC, id DESC, fence DESC
 LIMIT :limit

-- :name chart_bins
-- The same where there are too many to be told one by one: how many of each kind began in each part of the stretch.
SELECT (started_us - :from_us) / :bin_us, schedule, agent, NULL, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run_seen
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule)
 GROUP BY 1, 2, 3, 6

-- :name chart_bins_of_projects
-- The same by project.
SELECT (started_us - :from_us) / :bin_us, schedule, agent, project, NULL, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.run_seen
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule) AND (:project = '' OR project = :project)
 GROUP BY 1, 2, 3, 4, 6

-- :name chart_bins_of_workers
-- The same by the worker of the last attempt: a run that has ended has no worker any more.
SELECT (started_us - :from_us) / :bin_us, NULL, '', NULL, worker, state, count(*), min(started_us),
       max(ended_us), sum(cost_micro)::bigint
  FROM fencepost.try_seen
 WHERE tenant = :tenant AND created_us >= :since_us AND created_us < :until_us AND fence = run_fence
   AND started_us >= :from_us AND started_us < :until_us AND ended_us IS NOT NULL
   AND (:schedule = '' OR schedule = :schedule) AND (:project = '' OR project = :project)
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
    SELECT 1 FROM fencepost.run_seen
     WHERE :schedule = '' AND tenant = :tenant AND created_us >= :from_us AND created_us < :until_us
       AND (:project = '' OR project = :project)
    UNION ALL
    SELECT 1 FROM fencepost.run_seen
     WHERE :schedule <> '' AND tenant = :tenant AND schedule = :schedule
       AND counted_us >= :from_us AND counted_us < :until_us AND (:project = '' OR project = :project)
     LIMIT :limit) AS made
