-- What lives, with all that is asked about it: who waits for an agent is counted at every request for a run, and each of
-- them was looked up in the wide rows themselves.
DROP INDEX run_live;
CREATE INDEX run_live ON run (tenant, schedule, agent, state, started_us) WHERE state IN ('ready', 'running');
