-- Who may come in through the web door: keys for programs, one-time links, and the sessions of browsers.

CREATE TABLE fencepost.access_key (
    id         text COLLATE "C" PRIMARY KEY,  -- the public half, in lists and in the audit
    tenant     text COLLATE "C" NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('key', 'link', 'session')),
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('read', 'trigger', 'admin')),
    hash       text NOT NULL,                 -- sha256 of the whole; the other half is nowhere
    parent     text COLLATE "C",              -- the key or link that a session came from
    created_us bigint NOT NULL,
    created_by text NOT NULL,
    expires_us bigint,
    revoked_us bigint
);

CREATE INDEX access_key_of_tenant ON fencepost.access_key (tenant, created_us, id);
CREATE INDEX access_key_expires ON fencepost.access_key (expires_us) WHERE expires_us IS NOT NULL;
