-- What is left of records that were pruned: how many there were, and from where on all of them are still there.

CREATE TABLE watermark (
    tenant      TEXT NOT NULL,
    schedule    TEXT NOT NULL,     -- '': the runs of the whole tenant, with or without a schedule
    pruned_us   INTEGER NOT NULL,  -- records up to and including this instant may be gone
    tzdata      TEXT NOT NULL,     -- the release by which the newest pruned tick was decided
    kept_for_us INTEGER NOT NULL,
    at_us       INTEGER NOT NULL,
    PRIMARY KEY (tenant, schedule)
) STRICT, WITHOUT ROWID;

CREATE TABLE tally (
    tenant   TEXT NOT NULL,
    schedule TEXT NOT NULL,  -- '': runs without a schedule
    kind     TEXT NOT NULL CHECK (kind IN ('tick', 'run')),
    name     TEXT NOT NULL,  -- a tick's disposition, a run's state
    number   INTEGER NOT NULL,
    PRIMARY KEY (tenant, schedule, kind, name)
) STRICT, WITHOUT ROWID;

-- Log files of attempts that were pruned, for the worker on whose disk they are.
CREATE TABLE old_log (
    host     TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    run_id   TEXT NOT NULL,
    fence    INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    PRIMARY KEY (host, tenant, run_id, fence)
) STRICT, WITHOUT ROWID;

-- When the first run of its ticks started, once that run is gone: `once` is judged by it.
ALTER TABLE schedule_version ADD COLUMN started_us INTEGER;
