-- Sealed entries of the audit never change any more; a thousand in one row take a tenth of the room. Nothing is in it until
-- `fencepost store compact`, which then raises schema_needs: older programs would take what was moved for lost.
CREATE TABLE audit_pack (
    tenant      TEXT NOT NULL,
    first_place INTEGER NOT NULL,
    last_place  INTEGER NOT NULL,
    first_seq   INTEGER NOT NULL,  -- the lowest and the highest number of its entries
    last_seq    INTEGER NOT NULL,
    first_us    INTEGER NOT NULL,  -- the time of the oldest
    entries     INTEGER NOT NULL,
    verbs       TEXT NOT NULL,     -- JSON list
    names       BLOB NOT NULL,     -- a Bloom filter: what the entries are about
    content     BLOB NOT NULL,     -- the columns, compressed
    hashes      BLOB NOT NULL,     -- 32 bytes for each entry
    PRIMARY KEY (tenant, last_place)
) STRICT;

CREATE INDEX audit_pack_by_seq ON audit_pack (tenant, last_seq);
