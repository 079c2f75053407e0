-- Cells that this store keeps for other machines, and the ticks of crontab lines that guarded commands have claimed.

-- One small document under a name; whoever changes it names the tag that it found there.
CREATE TABLE fencepost.cell (
    tenant   text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    tag      text NOT NULL,
    document text NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- What is known of a job's newest tick; it changes in the transaction in which its lease does.
CREATE TABLE fencepost.guarded_tick (
    tenant   text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    job      text COLLATE "C" NOT NULL,
    fence    bigint NOT NULL,  -- of the lease under which it was claimed
    record   text NOT NULL,
    PRIMARY KEY (tenant, resource, job)
);

-- A key may have the role `lease`: it is good for cells, and for nothing else.
ALTER TABLE fencepost.access_key DROP CONSTRAINT access_key_role_check;
ALTER TABLE fencepost.access_key
    ADD CONSTRAINT access_key_role_check CHECK (role IN ('read', 'trigger', 'admin', 'lease'));
