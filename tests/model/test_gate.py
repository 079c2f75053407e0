"""Who passes a gate, and what it remembers afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import FenceRefused
from fencepost.model.gate import FLOOR, MARKS_MAX, Mark, Proof, RefusedByMark, check, closed_below, covers, raised

TARGET = "file:/srv/out.json"
KEY = "default lock:z"


def proof(fence: int, *resources: str, store: str | None = "A", run_id: str = "") -> Proof:
    return Proof("default", resources or ("lock:z",), fence, store, "host-1", run_id)


def mark(fence: int, store: str = "A") -> Mark:
    return Mark(fence, store, "host-0", "run-0", 1)


def passes(shown: Proof, marks: dict[str, Mark], *, adopt: bool = False) -> bool:
    try:
        check(shown, marks, target=TARGET, adopt=adopt)
    except FenceRefused:
        return False
    return True


@given(fence=st.integers(1, 9), seen=st.integers(1, 9))
def test_a_fence_passes_exactly_if_it_is_at_least_the_mark(fence: int, seen: int) -> None:
    assert passes(proof(fence), {KEY: mark(seen)}) == (fence >= seen)


def test_the_same_fence_in_the_hands_of_another_run_is_refused() -> None:
    marks = raised(proof(5, run_id="run-1"), {}, at_us=1)

    assert passes(proof(5, run_id="run-1"), marks)
    assert not passes(proof(5, run_id="run-2"), marks)
    assert passes(proof(6, run_id="run-2"), marks)


def test_one_stale_resource_among_many_refuses() -> None:
    marks = {"default lock:a": mark(3), "default lock:z": mark(5)}

    assert passes(proof(5, "lock:a", "lock:z"), marks)
    assert not passes(proof(4, "lock:a", "lock:z"), marks)
    assert passes(proof(4, "lock:a"), marks)


def test_a_proof_without_resources_proves_nothing() -> None:
    assert not passes(Proof("default", (), 9, "A"), {})


def test_a_project_is_the_same_resource_for_every_tenant() -> None:
    marks = raised(Proof("red", ("project:p",), 5, "A"), {}, at_us=1)

    assert not passes(Proof("blue", ("project:p",), 4, "A"), marks)


def test_tenants_do_not_fence_one_another() -> None:
    marks = raised(Proof("red", ("lock:z",), 5, "A"), {}, at_us=1)

    assert passes(Proof("blue", ("lock:z",), 4, "A"), marks)


def test_a_refusal_carries_the_mark_so_that_a_regress_can_be_told() -> None:
    with pytest.raises(RefusedByMark) as refusal:
        check(proof(4), {KEY: mark(5)}, target=TARGET)

    assert refusal.value.mark == mark(5)
    assert refusal.value.key == KEY
    assert refusal.value.exit_code == 77


def test_another_stores_mark_refuses_even_a_higher_fence_and_names_store_and_host() -> None:
    with pytest.raises(FenceRefused, match="fenced by store B on host host-0"):
        check(proof(9), {KEY: mark(5, "B")}, target=TARGET)


def test_adopting_takes_over_another_stores_mark_whatever_its_number() -> None:
    marks = {KEY: mark(9, "B")}

    assert passes(proof(5), marks, adopt=True)
    assert raised(proof(5), marks, at_us=2)[KEY] == Mark(5, "A", "host-1", "", 2)


@pytest.mark.parametrize("store", ["A", None])
def test_adopting_never_goes_back_within_a_store(store: str | None) -> None:
    assert not passes(proof(4, store=store), {KEY: mark(5)}, adopt=True)


def test_a_writer_that_was_only_told_a_number_is_compared_by_number_and_keeps_the_store() -> None:
    marks = {KEY: mark(5)}

    assert passes(proof(6, store=None), marks)
    assert raised(proof(6, store=None), marks, at_us=2)[KEY].store == "A"


def test_passing_again_with_an_equal_fence_changes_nothing() -> None:
    marks = raised(proof(5), {}, at_us=1)

    assert raised(proof(5, run_id="again"), marks, at_us=2) == marks


def test_marks_of_other_resources_stay() -> None:
    marks = {"default lock:other": mark(3)}

    assert raised(proof(5), marks, at_us=2)["default lock:other"] == mark(3)


@given(st.lists(st.tuples(st.sampled_from(["lock:a", "lock:b", "run:c"]), st.integers(1, 20)), max_size=30))
def test_marks_only_rise_and_no_fence_passes_after_a_higher_one(shown: list[tuple[str, int]]) -> None:
    marks: dict[str, Mark] = {}
    highest: dict[str, int] = {}
    for name, fence in shown:
        assert passes(proof(fence, name), marks) == (fence >= highest.get(name, 0))
        if passes(proof(fence, name), marks):
            marks = raised(proof(fence, name), marks, at_us=1)
            highest[name] = fence
    assert {key.split()[1]: mark.fence for key, mark in marks.items()} == highest


def test_a_gate_that_forgot_its_marks_is_closed_for_everybody_older_than_who_repaired_it() -> None:
    marks = raised(proof(5), closed_below(proof(5), at_us=1), at_us=1)

    assert not passes(proof(4, "lock:somebody-else"), marks)
    assert passes(proof(6, "lock:somebody-else"), marks)
    assert passes(proof(5), marks)


def test_a_gates_memory_is_bounded_and_forgets_no_fence() -> None:
    marks: dict[str, Mark] = {}
    for number in range(1, MARKS_MAX + 101):
        marks = raised(proof(number * 10, f"run:{number}"), marks, at_us=1)

    assert len(marks) == MARKS_MAX
    assert FLOOR in marks
    for number in range(1, MARKS_MAX + 101):
        assert not passes(proof(number * 10 - 1, f"run:{number}"), marks)
    assert passes(proof(MARKS_MAX * 10 + 1000, f"run:{MARKS_MAX + 100}"), marks)


@pytest.mark.parametrize(
    ("declared", "target", "covered"),
    [
        ("file:/srv/site/", "file:/srv/site/a.html", True),
        ("file:/srv/site/", "file:/srv/site/sub/a.html", True),
        ("file:/srv/site/", "file:/srv/site/", True),
        ("file:/srv/a", "file:/srv/a", True),
        ("file:/srv/a", "file:/srv/ab", False),
        ("file:/srv/site/", "file:/srv/site2/a", False),
        ("file:/srv/site/a", "file:/srv/site/", False),
    ],
)
def test_a_declared_directory_covers_what_is_below_it(declared: str, target: str, *, covered: bool) -> None:
    assert covers(declared, target) is covered
