-- The runs that were in a tick's way when it was skipped because of overlap: their ids, oldest first, as a JSON list.
ALTER TABLE fencepost.tick ADD COLUMN behind text COLLATE "C";
