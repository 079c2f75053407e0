-- Runs that are not changed any more, in a narrow form: what differs stands in a row of its own, with the one attempt, as
-- distances from when it was made; what runs share stands once. Nothing is in it until `fencepost store compact`, which
-- then raises schema_needs: older programs would take what was moved for lost.
CREATE TABLE past_common (
    tenant         TEXT NOT NULL,
    number         INTEGER NOT NULL,
    hash           TEXT NOT NULL,  -- of all that is shared
    newest_us      INTEGER NOT NULL,  -- when the newest run was made that has this
    agent          TEXT NOT NULL,
    version        INTEGER,
    trigger        TEXT NOT NULL,
    manifest_hash  TEXT NOT NULL,
    resources      TEXT NOT NULL,  -- character 1 stands for the run's id
    lease_max      INTEGER NOT NULL,
    lines_up       INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    rank           INTEGER NOT NULL,
    reason         TEXT,
    attempt        INTEGER NOT NULL,
    resume         INTEGER NOT NULL,
    exit_code      INTEGER,
    reserved_micro INTEGER NOT NULL,
    log            TEXT,  -- character 1 stands for the run's id, character 2 for its fence
    project        TEXT,
    in_process     INTEGER NOT NULL,
    outcome        TEXT,
    give_up        INTEGER,  -- microseconds from waiting_us
    period_start   INTEGER,  -- from tick_us, if it is a whole number of minutes
    period_end     INTEGER,  -- likewise
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX past_common_by_hash ON past_common (tenant, hash);

-- Distances are in microseconds from created_us, where no other instant is named.
CREATE TABLE past_run (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    schedule      TEXT,
    created_us    INTEGER NOT NULL,
    tick_us       INTEGER,
    counted_us    INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    started       INTEGER,
    ended         INTEGER,
    ready         INTEGER,  -- empty: at once
    waited        INTEGER,  -- empty: 0
    place         INTEGER,  -- from ready_us; empty: 0
    period_start  INTEGER,  -- from tick_us; empty: as in past_common
    period_end    INTEGER,  -- likewise
    last_success  INTEGER,
    backfill_from INTEGER,
    cost_micro    INTEGER,
    began         INTEGER,  -- the attempt, from started_us
    stopped       INTEGER,  -- the attempt, from ended_us
    turns         INTEGER,
    requests      INTEGER,  -- empty: 1
    common        INTEGER NOT NULL,
    occurrence    TEXT,
    key           BLOB,  -- the idempotency key; empty: the id
    payload       TEXT,  -- empty: {}
    summary       TEXT,
    worker        TEXT NOT NULL,
    last_log      TEXT,
    session       TEXT,
    usage         TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX past_run_by_age ON past_run (tenant, created_us, id);
CREATE INDEX past_run_by_tick ON past_run (tenant, schedule, tick_us) WHERE schedule IS NOT NULL;
CREATE INDEX past_run_counted ON past_run (tenant, schedule, counted_us) WHERE schedule IS NOT NULL;
CREATE INDEX past_run_asked_again ON past_run (tenant) WHERE requests > 1;

-- Each kind in the words of run_fact, with two columns more; and both as one. A view of both reads no more than it must only
-- if every column has one type on both sides, by CAST where it is computed, and each side is one table, without a join.
CREATE VIEW run_plain AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us, period_start_us, period_end_us,
       backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       CAST(CASE WHEN manifest <> '' THEN manifest
            ELSE (SELECT definition FROM manifest WHERE manifest.tenant = run.tenant AND hash = manifest_hash)
        END AS TEXT) AS manifest,
       manifest_hash, payload, resources, lease_max, lines_up, priority, state, reason, created_us, waiting_us,
       ready_us, attempt, resume, stop, lease_id, fence, worker, started_us, ended_us, exit_code, reserved_micro,
       counted_us, cost_micro, summary, log, discarded_us, give_up_us, rank, place_us, requests, project, in_process
  FROM run;

CREATE VIEW past_plain AS
SELECT past_run.id,
       past_run.tenant,
       (SELECT c.agent FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS agent,
       past_run.schedule,
       (SELECT c.version FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS version,
       (SELECT c.trigger FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS trigger,
       past_run.occurrence,
       past_run.tick_us,
       CAST(tick_us + coalesce(past_run.period_start, (SELECT c.period_start FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS INTEGER) AS period_start_us,
       CAST(tick_us + coalesce(past_run.period_end, (SELECT c.period_end FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS INTEGER) AS period_end_us,
       CAST(created_us + backfill_from AS INTEGER) AS backfill_from_us,
       CAST(created_us + last_success AS INTEGER) AS last_success_us,
       CAST(iif(key IS NULL, id, lower(hex(key))) AS TEXT) AS idempotency_key,
       CAST(NULL AS TEXT) AS request_key,
       CAST(NULL AS TEXT) AS origin,
       CAST((SELECT definition FROM manifest
                WHERE manifest.tenant = past_run.tenant
                  AND hash = (SELECT c.manifest_hash FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common)) AS TEXT) AS manifest,
       (SELECT c.manifest_hash FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS manifest_hash,
       CAST(coalesce(payload, '{}') AS TEXT) AS payload,
       CAST(replace((SELECT c.resources FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common), char(1), id) AS TEXT) AS resources,
       (SELECT c.lease_max FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS lease_max,
       (SELECT c.lines_up FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS lines_up,
       (SELECT c.priority FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS priority,
       CAST('succeeded' AS TEXT) AS state,
       (SELECT c.reason FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS reason,
       past_run.created_us,
       CAST(created_us + coalesce(waited, 0) AS INTEGER) AS waiting_us,
       CAST(created_us + coalesce(ready, 0) AS INTEGER) AS ready_us,
       (SELECT c.attempt FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS attempt,
       (SELECT c.resume FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS resume,
       CAST(NULL AS TEXT) AS stop,
       CAST(NULL AS TEXT) AS lease_id,
       past_run.fence,
       CAST(NULL AS TEXT) AS worker,
       CAST(created_us + started AS INTEGER) AS started_us,
       CAST(created_us + ended AS INTEGER) AS ended_us,
       (SELECT c.exit_code FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS exit_code,
       (SELECT c.reserved_micro FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS reserved_micro,
       past_run.counted_us,
       past_run.cost_micro,
       past_run.summary,
       CAST(replace(replace((SELECT c.log FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common), char(1), id),
                    char(2), CAST(fence AS TEXT)) AS TEXT) AS log,
       CAST(NULL AS INTEGER) AS discarded_us,
       CAST(created_us + coalesce(waited, 0) + (SELECT c.give_up FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS INTEGER) AS give_up_us,
       (SELECT c.rank FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS rank,
       CAST(created_us + coalesce(ready, 0) + coalesce(place, 0) AS INTEGER) AS place_us,
       CAST(coalesce(requests, 1) AS INTEGER) AS requests,
       (SELECT c.project FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS project,
       (SELECT c.in_process FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS in_process
  FROM past_run;

CREATE VIEW run_seen AS
SELECT * FROM run_plain UNION ALL SELECT * FROM past_plain;

CREATE VIEW past_attempt AS
SELECT past_run.id AS run_id,
       (SELECT c.attempt FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS number,
       past_run.fence,
       past_run.worker,
       CAST(created_us + started + began AS INTEGER) AS started_us,
       CAST(created_us + ended + stopped AS INTEGER) AS ended_us,
       (SELECT c.outcome FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS outcome,
       (SELECT c.exit_code FROM past_common AS c WHERE c.tenant = past_run.tenant AND c.number = common) AS exit_code,
       past_run.last_log,
       past_run.session,
       past_run.cost_micro,
       past_run.turns,
       past_run.usage
  FROM past_run;

CREATE VIEW attempt_seen AS
SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns,
       usage
  FROM attempt
UNION ALL
SELECT * FROM past_attempt;

-- Every try at a run, with its run; and the runs that were never tried.
CREATE VIEW try_seen AS
SELECT run.id, run.tenant, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.started_us,
       run.ended_us, run.resume, run.cost_micro, run.fence AS run_fence, attempt.number, attempt.fence, attempt.worker,
       attempt.started_us AS attempt_started_us, attempt.ended_us AS attempt_ended_us, attempt.outcome, attempt.session
  FROM run
  LEFT JOIN attempt ON attempt.run_id = run.id
UNION ALL
SELECT run.id, run.tenant, run.schedule, run.agent, run.project, run.state, run.reason, run.created_us, run.started_us,
       run.ended_us, run.resume, run.cost_micro, run.fence, attempt.number, attempt.fence, attempt.worker,
       attempt.started_us, attempt.ended_us, attempt.outcome, attempt.session
  FROM past_plain AS run
  JOIN past_attempt AS attempt ON attempt.run_id = run.id;

-- A definition stays as long as a moved run may rest on it, also for an older program that is still at work and sees none.
CREATE TRIGGER manifest_is_kept BEFORE DELETE ON manifest
  WHEN EXISTS (SELECT 1 FROM past_run WHERE tenant = OLD.tenant AND created_us <= OLD.used_us + 172800000000)
BEGIN
    SELECT RAISE(IGNORE);
END;
