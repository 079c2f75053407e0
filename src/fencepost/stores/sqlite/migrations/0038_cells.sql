-- Cells that this store keeps for other machines, and the ticks of crontab lines that guarded commands have claimed.

-- One small document under a name; whoever changes it names the tag that it found there.
CREATE TABLE cell (
    tenant   TEXT NOT NULL,
    name     TEXT NOT NULL,
    tag      TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- What is known of a job's newest tick; it changes in the transaction in which its lease does.
CREATE TABLE guarded_tick (
    tenant   TEXT NOT NULL,
    resource TEXT NOT NULL,
    job      TEXT NOT NULL,
    fence    INTEGER NOT NULL,  -- of the lease under which it was claimed
    record   TEXT NOT NULL,
    PRIMARY KEY (tenant, resource, job)
) STRICT, WITHOUT ROWID;

-- A key may have the role `lease`: it is good for cells, and for nothing else.
CREATE TABLE access_key_38 (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('key', 'link', 'session')),
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('read', 'trigger', 'admin', 'lease')),
    hash       TEXT NOT NULL,
    parent     TEXT,
    created_us INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_us INTEGER,
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO access_key_38 SELECT id, tenant, kind, name, role, hash, parent, created_us, created_by, expires_us, revoked_us
  FROM access_key;
DROP TABLE access_key;
ALTER TABLE access_key_38 RENAME TO access_key;
CREATE INDEX access_key_of_tenant ON access_key (tenant, created_us, id);
CREATE INDEX access_key_expires ON access_key (expires_us) WHERE expires_us IS NOT NULL;
