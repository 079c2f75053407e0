"""A pack gives back what went into it, and knows what is not in it."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.audit_pack import PackDamaged, PackEntry, WantedEntries, pack, unpack

NUMBERS = st.integers(-(1 << 53), 1 << 53)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VERBS = st.sampled_from(["tick", "lease", "settle", "cancel"])
RUNS = st.sampled_from(["r1", "r2", "r3", 'r"4', "r\\5", ""])
SUBJECTS = st.one_of(RUNS.map("run:{}".format), st.sampled_from(["schedule:s", "batch:l1", "batch:l2"]), TEXTS)
DETAILS = st.one_of(
    TEXTS, st.lists(RUNS, max_size=4).map(lambda runs: f'{{"runs": {str(runs).replace(chr(39), chr(34))}}}')
)
HASHES = st.one_of(st.binary(min_size=32, max_size=32).map(bytes.hex), st.sampled_from(["x", "", "A" * 64, "0" * 63]))
ENTRIES = st.lists(
    st.builds(PackEntry, NUMBERS, NUMBERS, NUMBERS, st.none() | NUMBERS, TEXTS, VERBS, SUBJECTS, DETAILS, HASHES),
    min_size=1,
    max_size=30,
)


@given(ENTRIES)
def test_a_pack_gives_back_what_went_in(entries: list[PackEntry]) -> None:
    made = pack(entries)

    assert unpack(made.content, made.hashes) == entries
    assert (made.first_place, made.last_place) == (entries[0].place, entries[-1].place)
    assert (made.first_seq, made.last_seq) == (min(one.seq for one in entries), max(one.seq for one in entries))


@given(ENTRIES, st.builds(WantedEntries, st.just("") | VERBS, st.just("") | SUBJECTS))
def test_a_pack_with_what_is_asked_for_is_never_left_out(entries: list[PackEntry], wanted: WantedEntries) -> None:
    run_id = wanted.subject.removeprefix("run:")
    if run_id != wanted.subject:
        wanted = wanted._replace(batched=f'"{run_id}"')
    made = pack(entries)

    if any(wanted.fits(one) for one in entries):
        assert wanted.may_be_in(made.verbs, made.names)


def test_most_packs_without_what_is_asked_for_are_left_out() -> None:
    entries = [PackEntry(n, n, n, None, "me", "settle", f"run:r{n}", "{}", "ab" * 32) for n in range(1_000)]
    made = pack(entries)
    others = [WantedEntries("settle", f"run:q{n}", f'"q{n}"') for n in range(10_000)]

    assert len(made.names) == 2_000
    assert sum(one.may_be_in(made.verbs, made.names) for one in others) < 30
    assert not WantedEntries("cancel").may_be_in(made.verbs, made.names)


@dataclass(frozen=True)
class Damage:
    content: bytes
    hashes: bytes


GOOD = pack([PackEntry(1, 2, 3, None, "me", "tick", "schedule:s", "{}", "ab" * 32)])


@pytest.mark.parametrize(
    "damaged",
    [
        Damage(GOOD.content[:-3], GOOD.hashes),
        Damage(b"", GOOD.hashes),
        Damage(GOOD.content, b""),
        Damage(GOOD.content, GOOD.hashes * 2),
        Damage(GOOD.names, GOOD.hashes),
    ],
)
def test_a_pack_that_was_damaged_says_so(damaged: Damage) -> None:
    with pytest.raises(PackDamaged, match="audit verify"):
        unpack(damaged.content, damaged.hashes)
