-- Room in each page for a new version of every run in it. A lane leases all runs of a page at once, and a running run is a
-- little wider than one that waits: with 60 of 100, four in ten found no room, and were written into all indexes anew.
ALTER TABLE fencepost.run SET (fillfactor = 45);
