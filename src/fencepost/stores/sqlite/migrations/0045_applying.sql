-- A large apply is staged in steps, decided in one short transaction, and then written down step by step.

-- How often the registry of a tenant has changed: an apply is planned outside of any lock, and then compares.
CREATE TABLE registry_revision (
    tenant   TEXT PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An apply that is decided and not all written down. Whoever comes next goes on with it; until then no tick is decided.
CREATE TABLE applying (
    tenant     TEXT PRIMARY KEY,
    id         TEXT NOT NULL,
    source     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    decided_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is to be written down; without a decision about its apply it means nothing.
CREATE TABLE apply_step (
    id        TEXT NOT NULL,
    number    INTEGER NOT NULL,
    tenant    TEXT NOT NULL,
    what      TEXT NOT NULL,
    rows      TEXT NOT NULL,  -- JSON
    staged_us INTEGER NOT NULL,
    PRIMARY KEY (id, number)
) STRICT;
