"""A log is read while it is written: from its end, from where somebody stopped, and through its turns."""

from pathlib import Path

import pytest

from fencepost.host.log_files import LogFile
from fencepost.host.log_reader import LogReader, Spot
from fencepost.model.errors import Misconfigured

HALF = 100
ALL = 10_000


def log(path: Path) -> LogFile:
    return LogFile(str(path), 2 * HALF)


def everything(reader: LogReader) -> bytes:
    parts = []
    while part := reader.read(ALL):
        parts.append(part)
    return b"".join(parts)


def test_what_is_there_comes_first_and_then_what_is_added(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    file.write(b"one\n")
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    assert everything(reader) == b"one\n"
    file.write(b"two\n")
    assert everything(reader) == b"two\n"
    assert not reader.skipped


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    assert everything(reader) == b""
    assert reader.spot is None
    log(tmp_path / "a.log").write(b"at last\n")
    assert everything(reader) == b"at last\n"


def test_only_the_end_of_a_long_log_is_read_and_that_is_said(tmp_path: Path) -> None:
    log(tmp_path / "a.log").write(b"".join(b"%03d\n" % number for number in range(40)))
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=8)

    assert everything(reader) == b"038\n039\n"
    assert reader.skipped


def test_reading_goes_on_through_every_turn_without_loss(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    wanted = [b"line %04d\n" % number for number in range(100)]
    read = b""
    for line in wanted:
        file.write(line)
        read += everything(reader)

    assert read == b"".join(wanted)
    assert not reader.skipped


def test_who_comes_back_goes_on_where_they_were(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    file.write(b"a" * 60)
    first = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    everything(first)
    spot = first.spot
    first.close()
    file.write(b"b" * 80)  # it has its turn in between
    again = LogReader(str(tmp_path / "a.log"), spot, tail_bytes=ALL)

    assert everything(again) == b"b" * 80
    assert not again.skipped


def test_who_comes_back_too_late_gets_the_end_and_is_told(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    file.write(b"a" * 60)
    first = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    everything(first)
    spot = first.spot
    first.close()
    file.write(b"b" * 350)
    again = LogReader(str(tmp_path / "a.log"), spot, tail_bytes=50)

    assert everything(again) == b"b" * 50
    assert again.skipped


def test_a_place_that_was_made_up_is_no_place(tmp_path: Path) -> None:
    log(tmp_path / "a.log").write(b"abc\n")
    for spot in (Spot(1, 0), Spot((tmp_path / "a.log").stat().st_ino, 10**9)):
        assert everything(LogReader(str(tmp_path / "a.log"), spot, tail_bytes=ALL)) == b"abc\n"


def test_how_far_somebody_is_behind_is_known_and_can_be_skipped(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    file.write(b"a" * 150)
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    assert reader.behind() == 150
    reader.read(30)
    assert reader.behind() == 120
    reader.skip(10)
    assert everything(reader) == b"a" * 10
    assert reader.skipped


def test_a_log_that_cannot_be_read_is_told_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(Misconfigured, match=r"the log .*/a\.log cannot be read: Is a directory\."):
        everything(LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL))
    with pytest.raises(Misconfigured, match=r"cannot be read: Not a directory\."):
        LogReader(str(tmp_path / "file" / "a.log"), None, tail_bytes=ALL)


def test_a_log_that_becomes_unreadable_is_told_at_its_next_reading(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log")
    file.write(b"one\n")
    reader = LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)
    everything(reader)
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    (tmp_path / "a.log").mkdir()

    with pytest.raises(Misconfigured, match="Is a directory"):
        everything(reader)


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("not for you\n")
    (tmp_path / "a.log").symlink_to(tmp_path / "precious")

    assert everything(LogReader(str(tmp_path / "a.log"), None, tail_bytes=ALL)) == b""
