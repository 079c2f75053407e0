-- Ticks that made no run, by when that was decided, for whoever looks at all schedules; with all that a sum of them takes.
CREATE INDEX tick_skips ON tick (tenant, decided_us, schedule, occurrence, disposition, count) WHERE disposition <> 'run';

-- Dead letters are few; they are found and counted without looking at all that has ended.
CREATE INDEX run_dead ON run (tenant, created_us, id) WHERE state = 'dead' AND discarded_us IS NULL;
