-- Who wants to be told of what, and what is on its way to them; a notice is written with what it tells of.

CREATE TABLE fencepost.wish (
    tenant   text COLLATE "C" NOT NULL,
    event    text COLLATE "C" NOT NULL,
    schedule text COLLATE "C" NOT NULL,  -- empty: any, or none
    owner    text COLLATE "C" NOT NULL,  -- the configuration that has the target
    name     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, event, schedule, owner, name)
);

CREATE TABLE fencepost.notice (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      text COLLATE "C" NOT NULL UNIQUE,
    tenant  text COLLATE "C" NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    body    text NOT NULL,
    at_us   bigint NOT NULL,
    state   text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'dead')),
    attempt bigint NOT NULL DEFAULT 0,
    due_us  bigint NOT NULL,
    error   text
);

CREATE INDEX notice_due ON fencepost.notice (tenant, owner, due_us) WHERE state = 'waiting';
CREATE INDEX notice_order ON fencepost.notice (tenant, owner, name, subject, seq) WHERE state = 'waiting';
CREATE INDEX notice_old ON fencepost.notice (tenant, state, at_us);
