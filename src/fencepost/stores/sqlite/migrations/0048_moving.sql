-- A tenant may come from another store, where the numbers of its audit's entries were others. The chain's hashes are over
-- those; here they are numbered anew, because another tenant may have the same.
ALTER TABLE audit ADD COLUMN said_seq INTEGER;  -- the number in the store where it was sealed, if that was another one
