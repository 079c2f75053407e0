-- What is left of records that were pruned: how many there were, and from where on all of them are still there.

CREATE TABLE fencepost.watermark (
    tenant      text COLLATE "C" NOT NULL,
    schedule    text COLLATE "C" NOT NULL,  -- '': the runs of the whole tenant, with or without a schedule
    pruned_us   bigint NOT NULL,            -- records up to and including this instant may be gone
    tzdata      text COLLATE "C" NOT NULL,  -- the release by which the newest pruned tick was decided
    kept_for_us bigint NOT NULL,
    at_us       bigint NOT NULL,
    PRIMARY KEY (tenant, schedule)
);

CREATE TABLE fencepost.tally (
    tenant   text COLLATE "C" NOT NULL,
    schedule text COLLATE "C" NOT NULL,  -- '': runs without a schedule
    kind     text COLLATE "C" NOT NULL CHECK (kind IN ('tick', 'run')),
    name     text COLLATE "C" NOT NULL,  -- a tick's disposition, a run's state
    number   bigint NOT NULL,
    PRIMARY KEY (tenant, schedule, kind, name)
);

-- Log files of attempts that were pruned, for the worker on whose disk they are.
CREATE TABLE fencepost.old_log (
    host     text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    run_id   text COLLATE "C" NOT NULL,
    fence    bigint NOT NULL,
    since_us bigint NOT NULL,
    PRIMARY KEY (host, tenant, run_id, fence)
);

-- When the first run of its ticks started, once that run is gone: `once` is judged by it.
ALTER TABLE fencepost.schedule_version ADD COLUMN started_us bigint;
