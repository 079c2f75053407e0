-- Which file on which machine applies whose definitions: the same file on two machines has one owner. The owner itself
-- stays in the `source` of agents, schedules and webhooks, where older programs find the path of a file without a name.
CREATE TABLE file_member (
    tenant  TEXT NOT NULL,
    machine TEXT NOT NULL,  -- '': a machine that cannot be told from others
    path    TEXT NOT NULL,
    owner   TEXT NOT NULL,
    PRIMARY KEY (tenant, machine, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX file_member_of_owner ON file_member (tenant, owner);

-- Every content that an owner's file has had, so that an old copy of it does not take the registry back in silence.
CREATE TABLE file_content (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    digest     TEXT NOT NULL,
    number     INTEGER NOT NULL,  -- the highest is the one in force
    applied_us INTEGER NOT NULL,
    applied_by TEXT NOT NULL,
    PRIMARY KEY (tenant, owner, digest)
) STRICT, WITHOUT ROWID;
