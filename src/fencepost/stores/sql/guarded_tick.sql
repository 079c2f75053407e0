-- :name tick_record
SELECT record FROM fencepost.guarded_tick WHERE tenant = :tenant AND resource = :resource AND job = :job

-- :name put_tick_record
INSERT INTO fencepost.guarded_tick (tenant, resource, job, fence, record)
VALUES (:tenant, :resource, :job, :fence, :record)
ON CONFLICT (tenant, resource, job) DO UPDATE SET fence = excluded.fence, record = excluded.record

-- :name move_tick_record
UPDATE fencepost.guarded_tick SET record = :record
 WHERE tenant = :tenant AND resource = :resource AND job = :job AND fence = :fence

-- :name drop_tick_record
DELETE FROM fencepost.guarded_tick WHERE tenant = :tenant AND resource = :resource AND job = :job
RETURNING job
