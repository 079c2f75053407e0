"""The ledger's decisions: who may go on, who is answered, and what nobody may repeat blindly."""

from itertools import product
from typing import Any

import pytest

from fencepost.model.effect_ledger import (
    ANSWER_MAX,
    DOUBT_MAX,
    Ambiguous,
    Answered,
    Diverged,
    EffectCall,
    Elsewhere,
    Entry,
    Mine,
    New,
    check_answer,
    check_key,
    doubt_of,
    judge,
    scope_of,
)
from fencepost.model.errors import Invalid

CALL = EffectCall("invoice-2026-10", "call-1")


def entry(**changes: Any) -> Entry:  # noqa: ANN401  # fields of the entry
    made = Entry(
        tenant="default",
        scope="",
        key=CALL.key,
        run_id="r1",
        lease_id="lease-1",
        fence=7,
        call="call-0",
        state="in_progress",
        answer=None,
        doubt=None,
        begun_us=1,
        completed_us=None,
        resolved_by=None,
        asked_fence=7,
        lease_live=True,
    )
    return made._replace(**changes)


def test_an_unknown_key_is_new() -> None:
    assert judge(None, CALL, lease_id="lease-1", run_id="r1") == New()


def test_a_completed_entry_answers_whoever_asks() -> None:
    done = entry(state="completed", answer='{"number": 17}', lease_live=False)

    assert judge(done, CALL, lease_id="lease-9", run_id="r1") == Answered('{"number": 17}')


def test_another_call_of_the_same_run_is_told_that_the_run_is_at_it() -> None:
    assert judge(entry(), CALL, lease_id="lease-1", run_id="r1") == Mine(entry())


def test_what_an_earlier_run_under_the_same_lease_has_left_open_is_in_doubt() -> None:
    """The runs of a lane share a lease and go one after the other."""
    assert judge(entry(), CALL, lease_id="lease-1", run_id="r2") == Ambiguous(entry())


def test_another_run_is_told_who_is_at_it() -> None:
    assert judge(entry(), CALL, lease_id="lease-9", run_id="r1") == Elsewhere(entry())


def test_the_same_call_asking_again_finds_its_grant() -> None:
    assert judge(entry(call=CALL.id), CALL, lease_id="lease-1", run_id="r1") == New()


def test_the_same_call_under_another_lease_finds_no_grant() -> None:
    mine = entry(call=CALL.id, lease_live=False)

    assert judge(mine, CALL, lease_id="lease-9", run_id="r1") == Ambiguous(mine)


def test_nothing_begun_and_not_completed_is_ever_new_to_anybody_else() -> None:
    """Whatever is known about it: a second caller is answered, told to wait, or sent to a person."""
    for live, doubt, state, lease, run in product(
        (True, False), (None, "exit 7"), ("in_progress", "completed"), ("lease-1", "lease-9"), ("r1", "r9")
    ):
        found = entry(lease_live=live, doubt=doubt, state=state, answer="1")
        assert not isinstance(judge(found, CALL, lease_id=lease, run_id=run), New)


@pytest.mark.parametrize("lease_id", ["lease-1", "lease-9"])
def test_an_entry_whose_lease_is_over_or_whose_caller_cannot_tell_is_ambiguous(lease_id: str) -> None:
    for found in (entry(lease_live=False), entry(doubt="timed out"), entry(lease_live=False, doubt="timed out")):
        assert judge(found, CALL, lease_id=lease_id, run_id="r1") == Ambiguous(found)
        assert found.standing == "ambiguous"


def test_a_strict_caller_diverges_while_earlier_effects_are_unexplained() -> None:
    earlier = (entry(key="mail"),)

    assert judge(None, CALL._replace(strict=True), lease_id="lease-9", run_id="r1", unreplayed=earlier) == Diverged(
        earlier
    )
    assert judge(None, CALL._replace(strict=True), lease_id="lease-9", run_id="r1") == New()
    assert judge(None, CALL, lease_id="lease-9", run_id="r1", unreplayed=earlier) == New()


def test_a_strict_caller_that_repeats_what_was_done_is_answered() -> None:
    done = entry(state="completed", answer="17")

    assert judge(done, CALL._replace(strict=True), lease_id="lease-9", run_id="r1", unreplayed=(done,)) == Answered(
        "17"
    )


def test_a_key_belongs_to_the_tenant_or_to_the_run() -> None:
    assert (scope_of("tenant", "r1"), scope_of("run", "r1")) == ("", "run:r1")
    with pytest.raises(Invalid, match="'tenant' or 'run', not 'world'"):
        scope_of("world", "r1")


@pytest.mark.parametrize("key", ["", "x" * 513, "a\nb", "a\0b"])
def test_a_key_that_cannot_be_kept_and_typed_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="1 to 512 printable"):
        check_key(key)


def test_an_answer_has_a_bound_in_bytes() -> None:
    assert check_answer("x" * ANSWER_MAX)
    with pytest.raises(Invalid, match="too long for the ledger"):
        check_answer("é" * (ANSWER_MAX // 2 + 1))


def test_a_doubt_is_short_and_printable_whatever_was_said() -> None:
    assert doubt_of("a\0b\nc\udcff") == "a b c "
    assert doubt_of("") == "it failed without a word"
    assert len(doubt_of("x" * 10_000)) == DOUBT_MAX
