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
  FROM fencepost.run_seen
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us >= %(from_us)s AND counted_us < %(until_us)s
   AND started_us IS NOT NULL
 GROUP BY 1
