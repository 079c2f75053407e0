-- Who wants to be told of what, and what is on its way to them; a notice is written with what it tells of.

CREATE TABLE wish (
    tenant   TEXT NOT NULL,
    event    TEXT NOT NULL,
    schedule TEXT NOT NULL,  -- empty: any, or none
    owner    TEXT NOT NULL,  -- the configuration that has the target
    name     TEXT NOT NULL,
    PRIMARY KEY (tenant, event, schedule, owner, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE notice (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT NOT NULL UNIQUE,
    tenant  TEXT NOT NULL,
    owner   TEXT NOT NULL,
    name    TEXT NOT NULL,
    event   TEXT NOT NULL,
    subject TEXT NOT NULL,
    body    TEXT NOT NULL,
    at_us   INTEGER NOT NULL,
    state   TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'dead')),
    attempt INTEGER NOT NULL DEFAULT 0,
    due_us  INTEGER NOT NULL,
    error   TEXT
) STRICT;

CREATE INDEX notice_due ON notice (tenant, owner, due_us) WHERE state = 'waiting';
CREATE INDEX notice_order ON notice (tenant, owner, name, subject, seq) WHERE state = 'waiting';
CREATE INDEX notice_old ON notice (tenant, state, at_us);
