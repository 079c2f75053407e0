-- Figures that do not cost more with every record that is kept. What is old enough to change no more is counted once,
-- into `meter`, and a look at the figures reads that and the little that came since.

-- Up to when records count in `meter`: runs by when they were made, ticks by when they were decided.
CREATE TABLE fencepost.folded (
    tenant   text COLLATE "C" NOT NULL,
    what     text COLLATE "C" NOT NULL CHECK (what IN ('run', 'tick')),
    until_us bigint NOT NULL,
    PRIMARY KEY (tenant, what)
);

-- Runs from before that which had not ended when they were to be counted.
CREATE TABLE fencepost.unfolded (
    tenant text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, run_id)
);

CREATE INDEX tick_decided ON fencepost.tick (tenant, decided_us) INCLUDE (schedule, disposition, count);
-- A run can be asked for again long after it has ended. No other change of a run touches this.
CREATE INDEX run_asked_again ON fencepost.run (tenant) WHERE requests > 1;

-- How many there were is a figure as well; `tally` goes on to say how many were pruned.
INSERT INTO fencepost.meter (tenant, schedule, agent, name, number)
SELECT tenant, schedule, '', kind || ':' || name, number FROM fencepost.tally
ON CONFLICT (tenant, schedule, agent, name) DO NOTHING;
