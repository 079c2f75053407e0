-- :name chart_tick_bins
-- How many ticks were decided in each part of a stretch of time, by what became of them.
SELECT (decided_us - :from_us) / :bin_us, disposition, sum(count)
  FROM tick INDEXED BY tick_decided
 WHERE tenant = :tenant AND decided_us >= :from_us AND decided_us < :until_us
 GROUP BY 1, 2

-- :name chart_days
-- What the runs of a schedule took and cost, by the day on which they count; :edges is where each day begins.
WITH day AS MATERIALIZED (SELECT key AS number, value AS since_us, lead(value) OVER (ORDER BY key) AS until_us
                            FROM json_each(:edges) WHERE value BETWEEN :from_us AND :until_us)
SELECT number, count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'cancelled'),
       count(*) FILTER (WHERE state = 'dead'), percentile_cont(ended_us - started_us, 0.5),
       percentile_cont(ended_us - started_us, 0.95), coalesce(sum(cost_micro), 0)
  FROM (SELECT day.number, state, started_us, ended_us, cost_micro
          FROM day CROSS JOIN run
         WHERE tenant = :tenant AND schedule = :schedule AND counted_us >= day.since_us AND counted_us < day.until_us
           AND started_us IS NOT NULL
        UNION ALL
        SELECT day.number, state, started_us, ended_us, cost_micro
          FROM day CROSS JOIN past_plain
         WHERE tenant = :tenant AND schedule = :schedule AND counted_us >= day.since_us AND counted_us < day.until_us
           AND started_us IS NOT NULL)
 GROUP BY number
