-- Sealed entries of the audit never change any more; a thousand in one row take a tenth of the room. Nothing is in it until
-- `fencepost store compact`, which then raises schema_needs: older programs would take what was moved for lost.
CREATE TABLE fencepost.audit_pack (
    tenant      text COLLATE "C" NOT NULL,
    first_place bigint NOT NULL,
    last_place  bigint NOT NULL,
    first_seq   bigint NOT NULL,  -- the lowest and the highest number of its entries
    last_seq    bigint NOT NULL,
    first_us    bigint NOT NULL,  -- the time of the oldest
    entries     bigint NOT NULL,
    verbs       text NOT NULL,    -- JSON list
    names       bytea NOT NULL,   -- a Bloom filter: what the entries are about
    content     bytea NOT NULL,   -- the columns, compressed
    hashes      bytea NOT NULL,   -- 32 bytes for each entry
    PRIMARY KEY (tenant, last_place)
);

CREATE INDEX audit_pack_by_seq ON fencepost.audit_pack (tenant, last_seq);

-- Both are as small as they get: the server need not try.
ALTER TABLE fencepost.audit_pack ALTER COLUMN content SET STORAGE EXTERNAL, ALTER COLUMN hashes SET STORAGE EXTERNAL;
