"""Mistakes in a copy of the sources: each can be made, and the tests of its line notice; `make mutations` tries all of them."""

from collections import Counter
from pathlib import Path

import pytest

from tests.planted.change import Change, Copy, source
from tests.planted.changes import changes
from tests.planted.fences import fences

SAMPLE = ("renew_leases without the fence of the lease",)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(str(tmp_path_factory.mktemp("planted")))


def everything() -> list[Change]:
    return [*fences(), *changes()]


def test_every_mistake_can_be_made_and_has_a_name_of_its_own() -> None:
    for change in everything():
        assert change.applied(source(change.path)) != source(change.path)
    names = Counter((change.area, change.name) for change in everything())
    assert names.total() == len(names)


def test_each_dialect_has_as_many_fences_to_leave_out() -> None:
    areas = Counter(change.area for change in fences())
    assert areas["sqlite"] == areas["PostgreSQL"] > 30


@pytest.mark.parametrize("name", SAMPLE)
def test_the_tests_of_a_line_notice_a_mistake_in_it_and_nothing_else(copy: Copy, name: str) -> None:
    change = next(one for one in everything() if one.area == "sqlite" and one.name == name)
    noticed_by = copy.noticed_by(change)
    assert noticed_by is not None
    assert noticed_by.partition("::")[2] in change.tests[0]
    assert copy.first_failure(change.tests) is None, "the copy was put right again"


def test_words_that_are_not_there_any_more_are_no_mistake(copy: Copy, tmp_path: Path) -> None:
    gone = Change("rules", "gone", "model/gate.py", "no such words", "", ())
    with pytest.raises(AssertionError, match="has changed"), copy.changed(gone):
        (tmp_path / "never").touch()
    assert not (tmp_path / "never").exists()
