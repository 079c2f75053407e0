-- Nobody asks this index any more, since figures are folded (0018): 92 bytes for each run that has ended.
DROP INDEX run_figures;

-- Dead letters have an index of their own (0017); this one has those that somebody has dealt with, too.
CREATE INDEX run_died ON run (tenant, created_us, id) WHERE state = 'dead';
