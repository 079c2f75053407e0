-- Runs that are not changed any more, in a narrow form: what differs stands in a row of its own, with the one attempt, as
-- distances from when it was made; what runs share stands once. Nothing is in it until `fencepost store compact`, which
-- then raises schema_needs: older programs would take what was moved for lost.
CREATE TABLE fencepost.past_common (
    tenant         text COLLATE "C" NOT NULL,
    number         integer NOT NULL,
    hash           text COLLATE "C" NOT NULL,  -- of all that is shared
    newest_us      bigint NOT NULL,  -- when the newest run was made that has this
    agent          text COLLATE "C" NOT NULL,
    version        bigint,
    trigger        text COLLATE "C" NOT NULL,
    manifest_hash  text NOT NULL,
    resources      text NOT NULL,  -- character 1 stands for the run's id
    lease_max      bigint NOT NULL,
    lines_up       boolean NOT NULL,
    priority       bigint NOT NULL,
    rank           bigint NOT NULL,
    reason         text,
    attempt        bigint NOT NULL,
    resume         boolean NOT NULL,
    exit_code      bigint,
    reserved_micro bigint NOT NULL,
    log            text,  -- character 1 stands for the run's id, character 2 for its fence
    project        text COLLATE "C",
    in_process     boolean NOT NULL,
    outcome        text,
    give_up        bigint,  -- microseconds from waiting_us
    period_start   bigint,  -- from tick_us, if it is a whole number of minutes
    period_end     bigint,  -- likewise
    PRIMARY KEY (tenant, number)
);

CREATE UNIQUE INDEX past_common_by_hash ON fencepost.past_common (tenant, hash);

-- Distances are in microseconds from created_us, where no other instant is named.
CREATE TABLE fencepost.past_run (
    id            text COLLATE "C" PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    schedule      text COLLATE "C",
    created_us    bigint NOT NULL,
    tick_us       bigint,
    counted_us    bigint NOT NULL,
    fence         bigint NOT NULL,
    started       bigint,
    ended         bigint,
    ready         bigint,  -- empty: at once
    waited        bigint,  -- empty: 0
    place         bigint,  -- from ready_us; empty: 0
    period_start  bigint,  -- from tick_us; empty: as in past_common
    period_end    bigint,  -- likewise
    last_success  bigint,
    backfill_from bigint,
    cost_micro    bigint,
    began         bigint,  -- the attempt, from started_us
    stopped       bigint,  -- the attempt, from ended_us
    turns         bigint,
    requests      bigint,  -- empty: 1
    common        integer NOT NULL,
    occurrence    text COLLATE "C",
    key           bytea,  -- the idempotency key; empty: the id
    payload       text,  -- empty: {}
    summary       text,
    worker        text NOT NULL,
    last_log      text,
    session       text,
    usage         text
);

CREATE INDEX past_run_by_age ON fencepost.past_run (tenant, created_us, id);
CREATE INDEX past_run_by_tick ON fencepost.past_run (tenant, schedule, tick_us) WHERE schedule IS NOT NULL;
CREATE INDEX past_run_counted ON fencepost.past_run (tenant, schedule, counted_us) WHERE schedule IS NOT NULL;
CREATE INDEX past_run_asked_again ON fencepost.past_run (tenant) WHERE requests > 1;

-- Each kind in the words of run_fact, with two columns more; and both as one. A view of both reads no more than it must only
-- if every column has one type on both sides, by CAST where it is computed, and each side is one table, without a join.
CREATE VIEW fencepost.run_plain AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us, period_start_us, period_end_us,
       backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       CASE WHEN manifest <> '' THEN manifest
            ELSE (SELECT definition FROM fencepost.manifest WHERE manifest.tenant = run.tenant AND hash = manifest_hash)
        END AS manifest,
       manifest_hash, payload, resources, lease_max, lines_up, priority, state, reason, created_us, waiting_us,
       ready_us, attempt, resume, stop, lease_id, fence, worker, started_us, ended_us, exit_code, reserved_micro,
       counted_us, cost_micro, summary, log, discarded_us, give_up_us, rank, place_us, requests, project, in_process
  FROM fencepost.run;

CREATE VIEW fencepost.past_plain AS
SELECT past_run.id,
       past_run.tenant,
       (SELECT c.agent FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS agent,
       past_run.schedule,
       (SELECT c.version FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS version,
       (SELECT c.trigger FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS trigger,
       past_run.occurrence,
       past_run.tick_us,
       CAST(tick_us + coalesce(past_run.period_start, (SELECT c.period_start FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS bigint) AS period_start_us,
       CAST(tick_us + coalesce(past_run.period_end, (SELECT c.period_end FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS bigint) AS period_end_us,
       CAST(created_us + backfill_from AS bigint) AS backfill_from_us,
       CAST(created_us + last_success AS bigint) AS last_success_us,
       CAST(coalesce(encode(key, 'hex'), id) AS text) AS idempotency_key,
       CAST(NULL AS text) COLLATE "C" AS request_key,
       CAST(NULL AS text) AS origin,
       CAST((SELECT definition FROM fencepost.manifest
                WHERE manifest.tenant = past_run.tenant
                  AND hash = (SELECT c.manifest_hash FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS text) AS manifest,
       (SELECT c.manifest_hash FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS manifest_hash,
       CAST(coalesce(payload, '{}') AS text) AS payload,
       CAST(replace((SELECT c.resources FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common), chr(1), id) AS text) AS resources,
       (SELECT c.lease_max FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS lease_max,
       (SELECT c.lines_up FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS lines_up,
       (SELECT c.priority FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS priority,
       CAST('succeeded' AS text) COLLATE "C" AS state,
       (SELECT c.reason FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS reason,
       past_run.created_us,
       CAST(created_us + coalesce(waited, 0) AS bigint) AS waiting_us,
       CAST(created_us + coalesce(ready, 0) AS bigint) AS ready_us,
       (SELECT c.attempt FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS attempt,
       (SELECT c.resume FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS resume,
       CAST(NULL AS text) AS stop,
       CAST(NULL AS text) COLLATE "C" AS lease_id,
       past_run.fence,
       CAST(NULL AS text) AS worker,
       CAST(created_us + started AS bigint) AS started_us,
       CAST(created_us + ended AS bigint) AS ended_us,
       (SELECT c.exit_code FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS exit_code,
       (SELECT c.reserved_micro FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS reserved_micro,
       past_run.counted_us,
       past_run.cost_micro,
       past_run.summary,
       CAST(replace(replace((SELECT c.log FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common), chr(1), id),
                    chr(2), CAST(fence AS text)) AS text) AS log,
       CAST(NULL AS bigint) AS discarded_us,
       CAST(created_us + coalesce(waited, 0) + (SELECT c.give_up FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS bigint) AS give_up_us,
       (SELECT c.rank FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS rank,
       CAST(created_us + coalesce(ready, 0) + coalesce(place, 0) AS bigint) AS place_us,
       CAST(coalesce(requests, 1) AS bigint) AS requests,
       (SELECT c.project FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS project,
       (SELECT c.in_process FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS in_process
  FROM fencepost.past_run;

CREATE VIEW fencepost.run_seen AS
SELECT * FROM fencepost.run_plain UNION ALL SELECT * FROM fencepost.past_plain;

CREATE VIEW fencepost.past_attempt AS
SELECT past_run.id AS run_id,
       (SELECT c.attempt FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS number,
       past_run.fence,
       past_run.worker,
       CAST(created_us + started + began AS bigint) AS started_us,
       CAST(created_us + ended + stopped AS bigint) AS ended_us,
       (SELECT c.outcome FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS outcome,
       (SELECT c.exit_code FROM fencepost.past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS exit_code,
       past_run.last_log,
       past_run.session,
       past_run.cost_micro,
       past_run.turns,
       past_run.usage
  FROM fencepost.past_run;

CREATE VIEW fencepost.attempt_seen AS
SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns,
       usage
  FROM fencepost.attempt
UNION ALL
SELECT * FROM fencepost.past_attempt;

-- Every try at a run, with its run; and the runs that were never tried.
CREATE VIEW fencepost.try_seen AS
SELECT run.id, run.tenant, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.started_us,
       run.ended_us, run.resume, run.cost_micro, run.fence AS run_fence, attempt.number, attempt.fence, attempt.worker,
       attempt.started_us AS attempt_started_us, attempt.ended_us AS attempt_ended_us, attempt.outcome, attempt.session
  FROM fencepost.run
  LEFT JOIN fencepost.attempt ON attempt.run_id = run.id
UNION ALL
SELECT run.id, run.tenant, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.started_us,
       run.ended_us, run.resume, run.cost_micro, run.fence, attempt.number, attempt.fence, attempt.worker,
       attempt.started_us, attempt.ended_us, attempt.outcome, attempt.session
  FROM fencepost.past_plain AS run
  JOIN fencepost.past_attempt AS attempt ON attempt.run_id = run.id;

-- A definition stays as long as a moved run may rest on it, also for an older program that is still at work and sees none.
CREATE FUNCTION fencepost.keep_manifest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM fencepost.past_run WHERE tenant = OLD.tenant AND created_us <= OLD.used_us + 172800000000) THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END
$$;

CREATE TRIGGER manifest_is_kept BEFORE DELETE ON fencepost.manifest FOR EACH ROW EXECUTE FUNCTION fencepost.keep_manifest();
