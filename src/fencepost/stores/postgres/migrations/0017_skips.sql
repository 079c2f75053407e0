-- Ticks that made no run, by when that was decided, for whoever looks at all schedules; with all that a sum of them takes.
CREATE INDEX tick_skips ON fencepost.tick (tenant, decided_us, schedule, occurrence, disposition, count) WHERE disposition <> 'run';

-- Dead letters have no index here: one over what changes would make every change of a run dearer.
