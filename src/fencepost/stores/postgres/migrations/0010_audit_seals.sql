-- The audit's chain: sealed entries have a place and a hash, and batches of them a seal.

ALTER TABLE fencepost.audit ADD COLUMN place bigint;  -- in the tenant's chain, from 1; empty: not sealed yet
ALTER TABLE fencepost.audit ADD COLUMN hash text;     -- of this entry and all before it

CREATE UNIQUE INDEX audit_place ON fencepost.audit (tenant, place) WHERE place IS NOT NULL;
CREATE INDEX audit_loose ON fencepost.audit (tenant, seq) WHERE place IS NULL;

CREATE TABLE fencepost.seal (
    tenant      text COLLATE "C" NOT NULL,
    number      bigint NOT NULL,
    first_place bigint NOT NULL,
    last_place  bigint NOT NULL,
    hash        text NOT NULL,
    at_us       bigint NOT NULL,
    key_id      text NOT NULL,
    mac         text NOT NULL,
    PRIMARY KEY (tenant, number)
);
