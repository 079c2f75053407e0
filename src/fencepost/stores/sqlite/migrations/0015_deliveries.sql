-- Deliveries of hooks that wait for more of them, and figures of what was pruned.

-- What came for a run that several deliveries share; one that comes again is known by its id.
CREATE TABLE delivery (
    tenant TEXT NOT NULL,
    hook   TEXT NOT NULL,
    id     TEXT NOT NULL,
    run_id TEXT NOT NULL,
    digest TEXT NOT NULL,  -- of its body
    at_us  INTEGER NOT NULL,
    times  INTEGER NOT NULL DEFAULT 1,  -- how often it came
    PRIMARY KEY (tenant, hook, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_of_run ON delivery (run_id);

-- The run that a hook's deliveries join until it is due.
CREATE TABLE gathering (
    tenant   TEXT NOT NULL,
    hook     TEXT NOT NULL,
    run_id   TEXT NOT NULL,
    first_us INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (tenant, hook)
) STRICT, WITHOUT ROWID;

-- What pruned runs came to, so that figures only rise.
CREATE TABLE meter (
    tenant   TEXT NOT NULL,
    schedule TEXT NOT NULL,  -- '': runs without a schedule
    agent    TEXT NOT NULL,
    name     TEXT NOT NULL,
    number   INTEGER NOT NULL,
    PRIMARY KEY (tenant, schedule, agent, name)
) STRICT, WITHOUT ROWID;

-- Lost attempts are few; they are counted without looking at all others.
CREATE INDEX attempt_lost ON attempt (run_id, fence) WHERE outcome = 'lost';

-- All that the figures need of an ended run, so that reading them does not touch the wide rows themselves.
CREATE INDEX run_figures ON run (tenant, schedule, agent, state, started_us, ended_us, cost_micro, requests, reason)
 WHERE state IN ('succeeded', 'dead', 'cancelled');
