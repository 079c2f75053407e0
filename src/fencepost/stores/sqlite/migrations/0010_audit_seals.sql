-- The audit's chain: sealed entries have a place and a hash, and batches of them a seal.

ALTER TABLE audit ADD COLUMN place INTEGER;  -- in the tenant's chain, from 1; empty: not sealed yet
ALTER TABLE audit ADD COLUMN hash TEXT;      -- of this entry and all before it

CREATE UNIQUE INDEX audit_place ON audit (tenant, place) WHERE place IS NOT NULL;
CREATE INDEX audit_loose ON audit (tenant, seq) WHERE place IS NULL;

CREATE TABLE seal (
    tenant      TEXT NOT NULL,
    number      INTEGER NOT NULL,
    first_place INTEGER NOT NULL,
    last_place  INTEGER NOT NULL,
    hash        TEXT NOT NULL,
    at_us       INTEGER NOT NULL,
    key_id      TEXT NOT NULL,
    mac         TEXT NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
