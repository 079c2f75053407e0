-- :name clock
SELECT fencepost.clock_us()

-- :name page_of_schedules
SELECT tenant, name FROM fencepost.schedule
 WHERE (tenant, name) > (:tenant, :name) ORDER BY tenant, name LIMIT :limit

-- :name next_due
SELECT min(due_us) FROM fencepost.schedule WHERE due_us IS NOT NULL AND retired_us IS NULL
