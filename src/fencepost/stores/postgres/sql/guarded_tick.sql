-- :name tick_record
SELECT record FROM fencepost.guarded_tick WHERE tenant = %(tenant)s AND resource = %(resource)s AND job = %(job)s

-- :name put_tick_record
INSERT INTO fencepost.guarded_tick (tenant, resource, job, fence, record)
VALUES (%(tenant)s, %(resource)s, %(job)s, %(fence)s, %(record)s)
ON CONFLICT (tenant, resource, job) DO UPDATE SET fence = excluded.fence, record = excluded.record

-- :name move_tick_record
UPDATE fencepost.guarded_tick SET record = %(record)s
 WHERE tenant = %(tenant)s AND resource = %(resource)s AND job = %(job)s AND fence = %(fence)s

-- :name drop_tick_record
DELETE FROM fencepost.guarded_tick WHERE tenant = %(tenant)s AND resource = %(resource)s AND job = %(job)s
RETURNING job
