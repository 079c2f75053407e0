-- Concurrency keys that several runs may share at once.

-- Whoever sets the limit of a key looks at the others that have one; most schedules do not.
CREATE INDEX schedule_with_key ON fencepost.schedule (tenant, name) WHERE position('"concurrency_key"' IN definition) > 0 AND retired_us IS NULL;

-- Tell whether each concurrency key among a run's resources, `[tenant, name, limit]`, has room for one more.
-- Leases on the key itself and on its slots, `name/1` and so on, count alike; '0' comes right after '/'.
CREATE FUNCTION fencepost.has_slots(resources text) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT NOT EXISTS (
       SELECT 1 FROM jsonb_array_elements(resources::jsonb) AS pool
        WHERE (pool ->> 2)::bigint <= (SELECT count(*) FROM fencepost.resource
                                         JOIN fencepost.lease_fact
                                           ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                                        WHERE resource.tenant = pool ->> 0
                                          AND resource.name >= pool ->> 1 AND resource.name < (pool ->> 1) || '0'
                                          AND (resource.name = pool ->> 1 OR resource.name > (pool ->> 1) || '/')
                                          AND lease_fact.remaining_ns > 0)) $$;
