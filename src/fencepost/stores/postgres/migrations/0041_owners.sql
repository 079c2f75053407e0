-- Which file on which machine applies whose definitions: the same file on two machines has one owner. The owner itself
-- stays in the `source` of agents, schedules and webhooks, where older programs find the path of a file without a name.
CREATE TABLE fencepost.file_member (
    tenant  text COLLATE "C" NOT NULL,
    machine text COLLATE "C" NOT NULL,  -- '': a machine that cannot be told from others
    path    text COLLATE "C" NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, machine, path)
);

CREATE INDEX file_member_of_owner ON fencepost.file_member (tenant, owner);

-- Every content that an owner's file has had, so that an old copy of it does not take the registry back in silence.
CREATE TABLE fencepost.file_content (
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    digest     text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,  -- the highest is the one in force
    applied_us bigint NOT NULL,
    applied_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, owner, digest)
);
