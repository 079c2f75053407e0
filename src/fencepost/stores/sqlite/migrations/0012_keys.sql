-- Who may come in through the web door: keys for programs, one-time links, and the sessions of browsers.

CREATE TABLE access_key (
    id         TEXT PRIMARY KEY,  -- the public half, in lists and in the audit
    tenant     TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('key', 'link', 'session')),
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('read', 'trigger', 'admin')),
    hash       TEXT NOT NULL,     -- sha256 of the whole; the other half is nowhere
    parent     TEXT,              -- the key or link that a session came from
    created_us INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_us INTEGER,
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX access_key_of_tenant ON access_key (tenant, created_us, id);
CREATE INDEX access_key_expires ON access_key (expires_us) WHERE expires_us IS NOT NULL;
