-- The runs that were in a tick's way when it was skipped because of overlap: their ids, oldest first, as a JSON list.
ALTER TABLE tick ADD COLUMN behind TEXT;
