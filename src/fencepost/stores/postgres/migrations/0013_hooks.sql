-- Webhooks: which agent a signed request from outside runs. What was delivered is known by the runs themselves.

CREATE TABLE fencepost.hook (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    definition text NOT NULL,  -- JSON: scheme, references to secrets, filters
    source     text NOT NULL,
    applied_us bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
