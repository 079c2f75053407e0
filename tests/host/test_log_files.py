"""Logs never grow beyond their limit, and the newest output is always there."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.host.log_files import LogFile, last_lines, log_path, read_log

CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=40)


@given(chunks=CHUNKS, limit=st.integers(2, 64))
def test_a_log_keeps_the_end_of_what_was_printed_within_its_limit(
    tmp_path_factory: object, chunks: list[bytes], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")  # type: ignore[attr-defined]
    path = log_path(str(folder), "r1", 7)
    log = LogFile(path, limit)

    for chunk in chunks:
        log.write(chunk)
    log.close()

    kept, printed = read_log(path), b"".join(chunks)
    assert printed.endswith(kept)
    assert len(kept) <= max(limit, 2)
    assert len(kept) >= min(len(printed), limit // 2)


def test_logs_are_for_their_owner_only(tmp_path: Path) -> None:
    path = Path(log_path(str(tmp_path / "logs"), "r1", 7))

    LogFile(str(path), 100).close()

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_last_lines_begin_at_the_beginning_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(f"line {number}\n".encode() for number in range(1000)))

    shown = last_lines(str(path), limit=100)

    assert shown.startswith("line ")
    assert shown.endswith("line 999\n")
    assert len(shown) <= 100


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff\x00ok\n")

    assert last_lines(str(path)) == "��ok\n"


def test_no_log_is_an_empty_log(tmp_path: Path) -> None:
    assert last_lines(str(tmp_path / "none")) == ""


def test_the_last_lines_of_a_log_that_cannot_be_read_say_so_and_fail_no_run(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()

    assert last_lines(str(tmp_path / "a.log")) == (
        f"[fencepost: the log {tmp_path / 'a.log'} cannot be read: Is a directory.]\n"
    )


def test_a_disk_that_is_full_loses_output_and_says_so_where_it_goes_on(tmp_path: Path) -> None:
    path = log_path(str(tmp_path), "r1", 7)
    log = LogFile(path, 1000)
    log.write(b"before\n")
    full = _full_disk()
    log.write(b"x" * 40)
    log.write(b"y" * 2)
    full.undo()
    log.write(b"after\n")
    log.close()

    missing = b"\n[fencepost: 42 bytes of output could not be kept here: No space left on device]\n"
    assert read_log(path) == b"before\n" + missing + b"after\n"
    assert (log.dropped, log.why) == (42, "No space left on device")


def test_a_loss_at_the_very_end_is_said_when_the_log_is_closed(tmp_path: Path) -> None:
    path = log_path(str(tmp_path), "r1", 7)
    log = LogFile(path, 1000)
    full = _full_disk()
    log.write(b"x" * 40)
    full.undo()
    log.close()

    assert b"40 bytes of output could not be kept" in read_log(path)


def test_a_log_that_cannot_be_begun_keeps_nothing_and_begins_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    path = log_path(str(tmp_path / "logs"), "r1", 7)
    log = LogFile(path, 1000)
    log.write(b"lost")
    assert (log.dropped, log.why) == (4, "Not a directory")

    (tmp_path / "logs").unlink()
    log.write(b"kept")
    log.close()

    assert read_log(path).endswith(b"could not be kept here: Not a directory]\nkept")


def test_a_log_whose_next_half_cannot_be_begun_writes_into_nobody_elses_file(tmp_path: Path) -> None:
    path = log_path(str(tmp_path), "r1", 7)
    log = LogFile(path, 20)
    log.write(b"0123456789")
    full = _full_disk(calls=("open",))
    log.write(b"lost")
    strangers = [os.dup(1) for _ in range(3)]  # whoever opens something now gets the lowest free number
    log.write(b"lost too")
    full.undo()
    log.close()
    for descriptor in strangers:
        os.close(descriptor)

    assert log.dropped == 12
    assert b"lost" not in read_log(path)


def _full_disk(calls: tuple[str, ...] = ("write", "open")) -> pytest.MonkeyPatch:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch = pytest.MonkeyPatch()
    for name in calls:
        patch.setattr(f"fencepost.host.log_files.os.{name}", refuse)
    return patch


def test_the_end_of_a_log_is_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    (tmp_path / "run.log.1").write_bytes(b"0123456789")
    path.write_bytes(b"abcdef")

    assert [read_log(str(path), most=most) for most in (0, 3, 6, 8, 100)] == [
        b"", b"def", b"abcdef", b"89abcdef", b"0123456789abcdef",
    ]  # fmt: skip
    assert read_log(str(path)) == b"0123456789abcdef"
