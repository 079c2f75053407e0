-- What engines tell of an attempt, and what is heard of runs that are carried out elsewhere.

ALTER TABLE attempt ADD COLUMN session TEXT;     -- the agent's own name of its conversation
ALTER TABLE attempt ADD COLUMN cost_micro INTEGER; -- what this attempt cost, as far as the agent said
ALTER TABLE attempt ADD COLUMN turns INTEGER;
ALTER TABLE attempt ADD COLUMN usage TEXT;       -- JSON: llm_tokens by kind

-- One row per attempt that somebody outside answers for: its last heartbeat, or its end.
CREATE TABLE completion (
    run_id  TEXT NOT NULL,
    fence   INTEGER NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
    content TEXT NOT NULL,  -- JSON: summary, cost_usd, turns, usage
    beats   INTEGER NOT NULL,
    at_us   INTEGER NOT NULL,
    PRIMARY KEY (run_id, fence)
) STRICT, WITHOUT ROWID;
