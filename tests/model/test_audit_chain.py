import json

from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.audit_chain import (
    ChainEntry,
    Fault,
    Seal,
    Sealed,
    Verifier,
    head_line,
    key_id,
    link,
    read_heads,
    seal,
)
from fencepost.model.notice import envelope

KEY = b"a key of thirty-two letters here"
KEYS = {key_id(KEY): KEY}
Chain = list[tuple[Seal, list[Sealed]]]


def entry(seq: int, detail: str = "{}") -> ChainEntry:
    return ChainEntry(seq, "default", 1_000 + seq, "ann", "pause", f"schedule:s{seq}", detail)


def chained(sizes: list[int], key: bytes = KEY) -> Chain:
    """Seal batches of these sizes."""
    chain: Chain = []
    last, seq = None, 0
    for size in sizes:
        entries = [entry(seq + number) for number in range(size)]
        seq += size
        links = link(entries, last)
        last = seal("default", links, last, key=key, at_us=seq)
        chain.append((last, [Sealed(one, at.place, at.hash) for one, at in zip(entries, links, strict=True)]))
    return chain


def faults(chain: Chain, *, keys: dict[str, bytes] = KEYS, heads: list[Seal] | None = None) -> tuple[Fault, ...]:
    verifier = Verifier(keys, heads or [])
    for one, entries in chain:
        if not verifier.take(one, entries):
            break
    return verifier.verdict().faults


def fault(chain: Chain, *, keys: dict[str, bytes] = KEYS, heads: list[Seal] | None = None) -> Fault | None:
    """Return the only one that there is."""
    found = faults(chain, keys=keys, heads=heads)
    assert len(found) <= 1
    return found[0] if found else None


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(sizes)
def test_a_chain_that_nobody_touched_is_good(lengths: list[int]) -> None:
    chain = chained(lengths)
    assert fault(chain, heads=[one for one, _ in chain]) is None


@given(sizes, st.data())
def test_a_changed_entry_is_named(lengths: list[int], data: st.DataObject) -> None:
    chain = chained(lengths)
    number = data.draw(st.integers(0, len(chain) - 1))
    at = data.draw(st.integers(0, lengths[number] - 1))
    name, value = data.draw(st.sampled_from([("actor", "eve"), ("detail", '{"x":1}'), ("at_us", 7), ("seq", 999)]))
    chain[number][1][at] = _edited(chain[number][1][at], name, value)

    found = fault(chain)
    assert found is not None
    assert found.kind == "integrity"
    assert f"place {chain[number][1][at].place} " in found.what


def _edited(found: Sealed, name: str, value: object) -> Sealed:
    return found._replace(entry=found.entry._replace(**{name: value}))  # type: ignore[arg-type]


@given(sizes, st.data())
def test_a_missing_entry_is_named(lengths: list[int], data: st.DataObject) -> None:
    chain = chained(lengths)
    number = data.draw(st.integers(0, len(chain) - 1))
    at = data.draw(st.integers(0, lengths[number] - 1))
    gone = chain[number][1].pop(at)

    assert fault(chain) == Fault("completeness", f"place {gone.place}", f"the entry at place {gone.place} is missing")


@given(sizes, st.data())
def test_a_changed_entry_does_not_hide_a_missing_one_nor_the_other_way_round(
    lengths: list[int], data: st.DataObject
) -> None:
    chain = chained([*lengths, 3, 1])
    head = chain[-1][0]
    *before, (_, entries), (_, _) = chain
    edited = data.draw(st.sampled_from([0, 2]))
    entries[edited] = _edited(entries[edited], "actor", "eve")
    changed = (f"place {entries[edited].place} was changed", "integrity")
    if data.draw(st.booleans()):
        chain = chain[:-1]
        missing = (f"seal {head.number} was kept elsewhere", "completeness")
    else:
        gone = before[0][1].pop(0)
        missing = (f"place {gone.place} is missing", "completeness")

    found = {one.kind: one.what for one in faults(chain, heads=[head])}
    assert len(found) == 2
    for what, kind in (changed, missing):
        assert what in found[kind]


@given(sizes, st.data())
def test_whoever_rewrites_a_batch_without_the_key_is_found_out(lengths: list[int], data: st.DataObject) -> None:
    """All hashes are made anew and the seal too, only the key is another one under the old name."""
    chain = chained(lengths)
    number = data.draw(st.integers(0, len(chain) - 1))
    last = chain[number - 1][0] if number else None
    entries = [found.entry._replace(actor="eve") for found in chain[number][1]]
    links = link(entries, last)
    forged = seal("default", links, last, key=b"another key of sixteen", at_us=5)._replace(key_id=key_id(KEY))
    chain[number] = (forged, [Sealed(one, at.place, at.hash) for one, at in zip(entries, links, strict=True)])

    found = fault(chain)
    assert found is not None
    assert (found.kind, found.where) == ("integrity", f"seal {number + 1}")


@given(sizes, st.data())
def test_a_missing_seal_in_the_middle_is_named(lengths: list[int], data: st.DataObject) -> None:
    chain = chained([*lengths, 1])
    number = data.draw(st.integers(0, len(chain) - 2))
    del chain[number]

    found = fault(chain)
    assert found is not None
    assert (found.kind, found.where) == ("completeness", f"seal {number + 1}")


@given(sizes, st.data())
def test_a_cut_off_end_shows_only_against_an_exported_head(lengths: list[int], data: st.DataObject) -> None:
    chain = chained([*lengths, 1])
    head = chain[-1][0]
    kept = chain[: data.draw(st.integers(0, len(chain) - 1))]

    assert fault(kept) is None
    found = fault(kept, heads=[head])
    assert found is not None
    assert (found.kind, found.where) == ("completeness", f"seal {head.number}")


def test_a_fork_made_with_the_key_itself_shows_against_an_exported_head() -> None:
    head = chained([2, 2])[0][0]
    fork = chained([1, 3])

    assert fault(fork) is None
    found = fault(fork, heads=[head])
    assert found is not None
    assert (found.kind, found.where) == ("completeness", "seal 1")


def test_a_key_that_is_not_here_is_told_and_the_hashes_are_still_checked() -> None:
    chain = chained([2, 2], key=b"the key of another machine")
    verifier = Verifier(KEYS)
    for one, entries in chain:
        assert verifier.take(one, entries)
    assert verifier.verdict().unknown_keys == (key_id(b"the key of another machine"),)

    chain[1][1][0] = _edited(chain[1][1][0], "verb", "resume")
    assert fault(chain) is not None


@given(sizes)
def test_heads_can_be_read_again(lengths: list[int]) -> None:
    heads = [one for one, _ in chained(lengths)]
    assert list(read_heads([*map(head_line, heads), "\n"])) == heads
    told = [json.dumps(envelope("audit_head", "2027-01-15T08:00:00Z", one._asdict())) for one in heads]
    assert list(read_heads(told)) == heads, "as a webhook got them"


def test_a_line_that_is_no_head_is_refused() -> None:
    wrong = head_line(chained([1])[0][0]).replace('"number": 1', '"number": "1"')
    for line in ("{}", "nonsense", "[]", '{"fencepost_audit_head": 1}', wrong):
        assert "line 1 is no exported head" in _complaint(line)


def _complaint(line: str) -> str:
    try:
        list(read_heads([line]))
    except ValueError as error:
        return str(error)
    return ""
