-- Concurrency keys that several runs may share at once.

-- Whoever sets the limit of a key looks at the others that have one; most schedules do not.
CREATE INDEX schedule_with_key ON schedule (tenant, name) WHERE instr(definition, '"concurrency_key"') > 0 AND retired_us IS NULL;
