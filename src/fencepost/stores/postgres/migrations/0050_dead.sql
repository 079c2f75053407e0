-- Dead runs are few among all that have ended, and people look for them. An index over the state would make every change of
-- a run dearer (see 0014); a narrow table beside it costs only those that die. `run` is the truth; its triggers keep this.

CREATE TABLE fencepost.dead (
    tenant     text COLLATE "C" NOT NULL,
    created_us bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    is_kept    boolean NOT NULL,  -- nobody has discarded it
    PRIMARY KEY (tenant, created_us, id)
);

CREATE FUNCTION fencepost.keep_dead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.state = 'dead' THEN
        DELETE FROM fencepost.dead WHERE tenant = OLD.tenant AND created_us = OLD.created_us AND id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.state = 'dead' THEN
        INSERT INTO fencepost.dead (tenant, created_us, id, is_kept)
        VALUES (NEW.tenant, NEW.created_us, NEW.id, NEW.discarded_us IS NULL);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER run_begins_dead AFTER INSERT ON fencepost.run FOR EACH ROW
  WHEN (NEW.state = 'dead') EXECUTE FUNCTION fencepost.keep_dead();

CREATE TRIGGER run_dies AFTER UPDATE ON fencepost.run FOR EACH ROW
  WHEN ((NEW.state = 'dead' OR OLD.state = 'dead')
        AND (OLD.state <> NEW.state OR OLD.discarded_us IS DISTINCT FROM NEW.discarded_us))
  EXECUTE FUNCTION fencepost.keep_dead();

CREATE TRIGGER run_is_forgotten AFTER DELETE ON fencepost.run FOR EACH ROW
  WHEN (OLD.state = 'dead') EXECUTE FUNCTION fencepost.keep_dead();

INSERT INTO fencepost.dead (tenant, created_us, id, is_kept)
SELECT tenant, created_us, id, discarded_us IS NULL FROM fencepost.run WHERE state = 'dead';
