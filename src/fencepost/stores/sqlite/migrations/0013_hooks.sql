-- Webhooks: which agent a signed request from outside runs. What was delivered is known by the runs themselves.

CREATE TABLE hook (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    agent      TEXT NOT NULL,
    definition TEXT NOT NULL,  -- JSON: scheme, references to secrets, filters
    source     TEXT NOT NULL,
    applied_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
