"""Mistakes that the suite has to notice: one line of the product changed, and the tests of that line asked."""

from collections.abc import Iterator

from tests.planted.change import Change

STORES = (("sqlite", "sqlite", ""), ("postgres", "PostgreSQL", "fencepost."))
# Which key, where it stands in a migration, and which row it is that must not be there twice.
KEYS = (
    (
        "a tick",
        "0003_runs.sql",
        "PRIMARY KEY (tenant, schedule, occurrence)",
        "PRIMARY KEY (tenant, schedule, occurrence, run_id)",
    ),
    ("a run of a tick", "0003_runs.sql", "CREATE UNIQUE INDEX run_of_tick", "CREATE INDEX run_of_tick"),
    ("a version of a schedule", "0002_registry.sql", "PRIMARY KEY (tenant, name, version)", "CHECK (true)"),
)
RULES = (
    # the gate and the fence
    ("a gate that compares >", "model/gate.py", "proof.fence < mark.fence", "proof.fence <= mark.fence", "model/test_gate.py"),
    ("a gate that does not compare", "model/gate.py", "proof.fence < mark.fence", "False", "model/test_gate.py"),
    ("a gate that takes another store's mark", "model/gate.py", "            if not adopt:", "            if False:", "model/test_gate.py"),
    ("two runs with one fence", "model/gate.py", "or _is_twin(mark, proof)", "", "model/test_gate.py"),
    ("a memory of marks that forgets", "model/gate.py", "floor = max(", "floor = min(", "model/test_gate.py"),
    # leases and their deadlines
    ("a deadline from after the answer", "service/custody.py", "asked_ns + round(trusted_for(ttl_seconds)", "self.now_ns() + round(trusted_for(ttl_seconds)", "service/test_custody.py"),
    ("a deadline that is over a tick late", "service/custody.py", "return self.now_ns() >= self.deadline_ns", "return self.now_ns() > self.deadline_ns", "service/test_custody.py"),
    ("a renewal that ignores errors", "service/custody.py", "                one.fail(str(error), asked_ns)\n", '                one.hear("renewed", asked_ns)\n', "service/test_custody.py"),
    ("a renewal of what was lost", "service/custody.py", '        elif answer in ("lost", "moved"):', '        elif answer == "moved":', "service/test_custody.py"),
    ("an adopted lease that is taken for a lost one", "service/custody.py", 'self.moved = answer == "moved"', "self.moved = False", "service/test_custody.py"),
    ("a last resort that comes with the deadline", "service/last_resort.py", "OVERDUE_PART = 0.8", "OVERDUE_PART = 0.0", "service/test_custody.py"),
    # what is owed
    ("a grace that excludes its last instant", "model/missed.py", "return self.now - self.policy.grace", "return self.now - self.policy.grace + INSTANT", "model/test_missed.py"),
    ("a replay that takes one more", "model/missed.py", "len(found) < limit", "len(found) <= limit", "model/test_missed.py"),
    ("a coalesced run that forgets where it began", "model/missed.py", "last_success < tick", "last_success <= tick", "model/test_missed.py"),
    ("a calendar before a pause", "model/missed.py", "held += [Hold(one, DispositionKind.CALENDAR) for one in blackouts]", "", "model/test_missed.py"),
    ("a blackout that ends a second late", "model/calendar.py", "stretch.within(wall, wall + 1)", "stretch.within(wall - 1, wall)", "model/test_calendar.py"),
    ("a blackout without its zone", "model/calendar.py", "wall = utc + self.zone.segment_at(utc).offset", "wall = utc", "model/test_calendar.py"),
    # budgets
    ("a budget that may be passed by one run", "model/budget.py", "spent >= limit or spent + amount > limit", "spent > limit", "model/test_budget.py"),
    ("a budget of which the last run is refused", "model/budget.py", "spent + amount > limit", "spent + amount >= limit", "model/test_budget.py"),
    ("one run more in an hour", "model/budget.py", "recent >= policy.max_runs_per_hour", "recent > policy.max_runs_per_hour", "model/test_budget.py"),
    ("an hour that is closed at both ends", "model/budget.py", "at - HOUR < one", "at - HOUR <= one", "model/test_budget.py"),
    # ends
    ("one attempt more", "model/retry.py", "if attempt < retry.max_attempts", "if attempt <= retry.max_attempts", "model/test_retry.py"),
    ("a refused fence is tried again", "model/retry.py", "        return Settlement(RunState.DEAD, failed.refused or Reason.FENCE_REFUSED)", "        pass", "model/test_retry.py"),
    ("a lost run is tried for ever", "model/retry.py", "if attempt >= retry.lost_attempts_max:", "if False:", "model/test_retry.py"),
    ("an ambiguous end is taken for a failure", "model/retry.py", "if is_ambiguous(failed, retry):", "if False:", "model/test_retry.py"),
    ("a drain that waits no longer", "model/retry.py", "if now < deadline_at:", "if False:", "model/test_retry.py"),
    # doors
    ("a signature that all have", "model/webhook.py", "found |= compare_digest(", "found |= True or compare_digest(", "web/test_webhooks.py"),
    ("an old delivery is as good as a new one", "model/webhook.py", "<= TOLERANCE_SECONDS", "<= 10**9", "web/test_webhooks.py"),
    ("an answer of yesterday", "model/signature.py", "> TOLERANCE_SECONDS", "> 10**9", "model/test_signature_and_address.py"),
    ("an entry of the audit that was changed", "model/audit_chain.py", "if previous is not None and hash_of(found.entry, previous) != found.hash:", "if False:", "model/test_audit_chain.py"),
    ("a seal without its key", "model/audit_chain.py", "elif follows and not hmac.compare_digest(_mac(one, self._last, key), one.mac):", "elif False:", "model/test_audit_chain.py"),
    ("a chain that was cut off", "model/audit_chain.py", "if head is not None and head.mac != one.mac:", "if False:", "model/test_audit_chain.py"),
)  # fmt: skip
ROLLBACKS = (
    (
        "sqlite",
        "stores/sqlite/dialect.py",
        'self._connection.execute("ROLLBACK")',
        'self._connection.execute("COMMIT")',
    ),
)


def changes() -> Iterator[Change]:
    """Return all of them."""
    for name, path, old, new, test in RULES:
        yield Change("rules", name, path, old, new, (f"tests/{test}",))
    for folder, area, _ in STORES:
        parameter = "postgresql" if folder == "postgres" else folder
        for name, migration, old, new in KEYS:
            tests = (f"tests/stores/test_unique.py::test_the_store_refuses_a_second_one_of[{parameter}-{name}]",)
            yield Change(area, f"no unique key for {name}", f"stores/{folder}/migrations/{migration}", old, new, tests)
    for area, path, old, new in ROLLBACKS:
        tests = ("tests/stores/test_runs_end.py::test_a_settlement_that_fails_half_way_changes_nothing",)
        yield Change(area, "a refusal that leaves half of it", path, old, new, tests)
