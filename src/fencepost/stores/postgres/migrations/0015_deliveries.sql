-- Deliveries of hooks that wait for more of them, and figures of what was pruned.

-- What came for a run that several deliveries share; one that comes again is known by its id.
CREATE TABLE fencepost.delivery (
    tenant text COLLATE "C" NOT NULL,
    hook   text COLLATE "C" NOT NULL,
    id     text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    digest text NOT NULL,  -- of its body
    at_us  bigint NOT NULL,
    times  bigint NOT NULL DEFAULT 1,  -- how often it came
    PRIMARY KEY (tenant, hook, id)
);

CREATE INDEX delivery_of_run ON fencepost.delivery (run_id);

-- The run that a hook's deliveries join until it is due.
CREATE TABLE fencepost.gathering (
    tenant   text COLLATE "C" NOT NULL,
    hook     text COLLATE "C" NOT NULL,
    run_id   text COLLATE "C" NOT NULL,
    first_us bigint NOT NULL,
    count    bigint NOT NULL,
    PRIMARY KEY (tenant, hook)
);

-- What pruned runs came to, so that figures only rise.
CREATE TABLE fencepost.meter (
    tenant   text COLLATE "C" NOT NULL,
    schedule text COLLATE "C" NOT NULL,  -- '': runs without a schedule
    agent    text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    PRIMARY KEY (tenant, schedule, agent, name)
);

-- The figures are read without an index of their own: one over what changes would make every change of a run dearer.
