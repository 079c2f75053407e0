"""Logs never grow beyond their limit, and the newest output is always there."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fencepost.host.logs import LogFile, last_lines, log_path, read_log

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
