-- A large apply is staged in steps, decided in one short transaction, and then written down step by step.

-- How often the registry of a tenant has changed: an apply is planned outside of any lock, and then compares.
CREATE TABLE fencepost.registry_revision (
    tenant   text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL
);

-- An apply that is decided and not all written down. Whoever comes next goes on with it; until then no tick is decided.
CREATE TABLE fencepost.applying (
    tenant     text COLLATE "C" PRIMARY KEY,
    id         text NOT NULL,
    source     text NOT NULL,
    actor      text NOT NULL,
    decided_us bigint NOT NULL
);

-- What is to be written down; without a decision about its apply it means nothing.
CREATE TABLE fencepost.apply_step (
    id        text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    what      text NOT NULL,
    rows      text NOT NULL,  -- JSON
    staged_us bigint NOT NULL,
    PRIMARY KEY (id, number)
);
