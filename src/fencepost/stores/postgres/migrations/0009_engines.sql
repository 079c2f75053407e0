-- What engines tell of an attempt, and what is heard of runs that are carried out elsewhere.

ALTER TABLE fencepost.attempt ADD COLUMN session text;     -- the agent's own name of its conversation
ALTER TABLE fencepost.attempt ADD COLUMN cost_micro bigint; -- what this attempt cost, as far as the agent said
ALTER TABLE fencepost.attempt ADD COLUMN turns bigint;
ALTER TABLE fencepost.attempt ADD COLUMN usage text;       -- JSON: llm_tokens by kind

-- One row per attempt that somebody outside answers for: its last heartbeat, or its end.
CREATE TABLE fencepost.completion (
    run_id  text COLLATE "C" NOT NULL,
    fence   bigint NOT NULL,
    state   text NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
    content text NOT NULL,  -- JSON: summary, cost_usd, turns, usage
    beats   bigint NOT NULL,
    at_us   bigint NOT NULL,
    PRIMARY KEY (run_id, fence)
) WITH (fillfactor = 60);
