"""What a store of cells can do, on every kind: three calls, and one winner."""

import os
from threading import Barrier, Thread

import pytest

from fencepost.cells.probe import probe
from fencepost.ports.cells import Answer, Cells, SwapOutcome
from tests.cells.grounds import CellGround

SECONDS = 20.0


@pytest.fixture
def cells(ground: CellGround) -> Cells:
    return ground.cells()


def document(text: str = "") -> bytes:
    return b'{"v": 1, "nonce": "%s", "text": "%s"}' % (os.urandom(16).hex().encode(), text.encode())


def put(cells: Cells, name: str, tag: str | None = None) -> tuple[bytes, str]:
    new = document()
    swapped = cells.swap(name, tag, new, seconds=SECONDS)
    assert swapped.tag is not None, swapped
    return new, swapped.tag


def test_what_is_not_there_has_neither_document_nor_tag(cells: Cells) -> None:
    read = cells.read(["nothing"], seconds=SECONDS)["nothing"]

    assert (read.document, read.tag) == (None, None)


def test_what_was_put_is_read_with_the_tag_of_the_swap_by_every_machine(ground: CellGround, cells: Cells) -> None:
    new, tag = put(cells, "a")
    read = ground.cells().read(["a"], seconds=SECONDS)["a"]

    assert (read.document, read.tag) == (new, tag)


def test_several_names_are_read_at_once(cells: Cells) -> None:
    kept = {f"c{number}": put(cells, f"c{number}")[0] for number in range(10)}
    read = cells.read([*kept, "nothing"], seconds=SECONDS)

    assert {name: one.document for name, one in read.items()} == {**kept, "nothing": None}


def test_a_swap_from_the_tag_that_is_there_succeeds_and_gives_another_tag(cells: Cells) -> None:
    _, first = put(cells, "a")
    new, second = put(cells, "a", first)

    assert first != second
    assert cells.read(["a"], seconds=SECONDS)["a"].document == new


@pytest.mark.parametrize("expected", ["none", "older"])
def test_a_swap_from_anything_else_is_a_conflict_and_changes_nothing(cells: Cells, expected: str) -> None:
    _, older = put(cells, "a")
    new, _ = put(cells, "a", older)
    swapped = cells.swap("a", None if expected == "none" else older, document(), seconds=SECONDS)

    assert (swapped.tag, swapped.answer) == (None, Answer.CONFLICT)
    assert cells.read(["a"], seconds=SECONDS)["a"].document == new


def test_a_swap_of_what_was_deleted_meanwhile_is_a_conflict(cells: Cells) -> None:
    _, tag = put(cells, "a")
    cells.swap("a", tag, None, seconds=SECONDS)

    assert cells.swap("a", tag, document(), seconds=SECONDS).answer is Answer.CONFLICT
    assert cells.read(["a"], seconds=SECONDS)["a"].document is None


def test_what_was_deleted_can_be_made_again(cells: Cells) -> None:
    _, tag = put(cells, "a")
    cells.swap("a", tag, None, seconds=SECONDS)
    new, _ = put(cells, "a")

    assert cells.read(["a"], seconds=SECONDS)["a"].document == new


def test_names_are_listed_by_how_they_begin(cells: Cells) -> None:
    for name in ("store", "aa1", "aa2", "b"):
        put(cells, name)

    assert sorted(cells.list("", seconds=SECONDS)) == ["aa1", "aa2", "b", "store"]
    assert sorted(cells.list("aa", seconds=SECONDS)) == ["aa1", "aa2"]
    assert cells.list("zz", seconds=SECONDS) == []


def test_a_document_of_the_largest_size_with_any_characters_comes_back_whole(cells: Cells) -> None:
    new = document("naïve 🦊 \\n" + "x" * 16_000)
    assert len(new) < 16_384
    assert cells.swap("a", None, new, seconds=SECONDS).tag is not None

    assert cells.read(["a"], seconds=SECONDS)["a"].document == new


def test_of_many_swaps_from_one_tag_at_once_one_wins(ground: CellGround, cells: Cells) -> None:
    _, tag = put(cells, "a")
    racers = 8
    answers: dict[int, SwapOutcome] = {}
    documents = [document() for _ in range(racers)]
    doors = [ground.cells() for _ in range(racers)]
    together = Barrier(racers)

    def race(number: int) -> None:
        together.wait()
        answers[number] = doors[number].swap("a", tag, documents[number], seconds=SECONDS)

    threads = [Thread(target=race, args=(number,)) for number in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    winners = [number for number, one in answers.items() if one.tag is not None]
    assert len(winners) == 1
    assert cells.read(["a"], seconds=SECONDS)["a"].document == documents[winners[0]]
    for door in doors:
        door.close()


def test_a_probe_finds_nothing_wrong_and_leaves_nothing_behind(cells: Cells) -> None:
    probe(cells)

    assert cells.list("", seconds=SECONDS) == []
