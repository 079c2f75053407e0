-- Figures that do not cost more with every record that is kept. What is old enough to change no more is counted once,
-- into `meter`, and a look at the figures reads that and the little that came since.

-- Up to when records count in `meter`: runs by when they were made, ticks by when they were decided.
CREATE TABLE folded (
    tenant   TEXT NOT NULL,
    what     TEXT NOT NULL CHECK (what IN ('run', 'tick')),
    until_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, what)
) STRICT, WITHOUT ROWID;

-- Runs from before that which had not ended when they were to be counted.
CREATE TABLE unfolded (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tenant, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tick_decided ON tick (tenant, decided_us, schedule, disposition, count);
-- A run can be asked for again long after it has ended.
CREATE INDEX run_asked_again ON run (tenant, schedule, agent, requests) WHERE requests > 1;

-- How many there were is a figure as well; `tally` goes on to say how many were pruned.
INSERT INTO meter (tenant, schedule, agent, name, number)
SELECT tenant, schedule, '', kind || ':' || name, number FROM tally WHERE true
ON CONFLICT (tenant, schedule, agent, name) DO NOTHING;
