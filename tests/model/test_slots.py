"""Concurrency keys: who gets a slot, and that no more get one than the limit says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.slots import Pool, Together, check_key, names_of, pools_of, seat, spell_resources


def test_a_key_with_one_slot_is_a_resource_of_its_own() -> None:
    assert seat(Pool("t", "key:openai", 1), set()) == "key:openai"


def test_the_lowest_free_slot_is_given() -> None:
    assert seat(Pool("t", "key:openai", 3), {"key:openai/1", "key:openai/3"}) == "key:openai/2"


@given(st.integers(1, 8), st.sets(st.integers(0, 9)))
def test_a_slot_is_given_exactly_while_fewer_are_taken_than_the_limit_says(limit: int, numbers: set[int]) -> None:
    taken = {f"key:k/{number}" if number else "key:k" for number in numbers}
    found = seat(Pool("t", "key:k", limit), taken)
    assert (found is None) is (len(taken) >= limit)
    assert found not in taken


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_whatever_the_order_of_comings_and_goings_no_slot_is_given_twice(moves: list[bool], limit: int) -> None:
    held: list[str] = []
    for comes in moves:
        if comes and (found := seat(Pool("t", "key:k", limit), set(held))):
            held.append(found)
        elif not comes and held:
            held.pop(0)
        assert len(held) == len(set(held)) <= limit


def test_what_a_run_leases_names_its_key_and_the_limit_behind_it() -> None:
    spelled = spell_resources("default", ["schedule:s"], key="openai", limit=3)
    assert json.loads(spelled) == [["default", "key:openai", 3], ["default", "schedule:s"]]
    assert pools_of(spelled) == [Pool("default", "key:openai", 3)]
    assert names_of(spelled) == ("key:openai", "schedule:s")


@pytest.mark.parametrize("key", ["", " ", "openai/1"])
def test_a_key_that_could_be_taken_for_a_slot_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="without"):
        check_key(key)


def test_runs_go_together_that_want_different_things() -> None:
    together = Together()
    assert together.admits("t", None, spell_resources("t", ["run:1"]), 1)
    assert together.admits("t", None, spell_resources("t", ["run:2"]), 1)
    assert not together.admits("t", None, spell_resources("t", ["run:1"]), 1)
    assert together.admits("other", None, spell_resources("other", ["run:1"]), 1), "another tenant's is another"


def test_as_many_go_together_as_their_schedule_and_their_key_let_in() -> None:
    together = Together()

    def admits(number: int, schedule: str, lease_max: int) -> bool:
        resources = spell_resources("t", [f"run:{schedule}{number}"], key="k", limit=3)
        return together.admits("t", schedule, resources, lease_max)

    assert [admits(number, "a", 2) for number in range(4)] == [True, True, False, False]
    assert [admits(number, "b", 9) for number in range(3)] == [True, False, False]


def test_a_run_that_does_not_fit_takes_nobodys_room() -> None:
    together = Together()
    assert together.admits("t", None, spell_resources("t", ["lock:a"]), 1)
    assert not together.admits("t", None, spell_resources("t", ["lock:a", "lock:b"]), 1)
    assert together.admits("t", None, spell_resources("t", ["lock:b"]), 1)
