"""The folder of guards: what they have written down is read once, and what killed ones have left is cleared away."""

import os
from pathlib import Path
from socket import AF_UNIX, socket

import pytest

from fencepost.model.outcome import Succeeded
from fencepost.service import end_record
from fencepost.service.end_record import END, EndRecord, EndRecords, Told, clear_away_the_dead

HOUR_US = 3600 * 1_000_000


def written(folder: Path, name: str, store: str = "ours") -> EndRecord:
    record = EndRecord(
        store, "default", f"run-{name}", f"lease-{name}", 7, Succeeded(), started=True, exit_code=0, told=Told(), gone=True,
        log="", began_us=1,
    )  # fmt: skip
    record.write(str(folder / f"{name}{END}"))
    return record


def test_ends_of_other_stores_are_left_alone_and_each_end_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = end_record.record_at

    def watched(path: str) -> EndRecord | None:
        read.append(path)
        return real(path)

    monkeypatch.setattr(end_record, "record_at", watched)
    ours = written(tmp_path, "a")
    written(tmp_path, "b", store="theirs")
    ends = EndRecords(str(tmp_path))
    expected = {"lease-a": (str(tmp_path / f"a{END}"), ours)}
    assert ends.of("ours") == ends.of("ours") == expected
    assert len(read) == 2

    (tmp_path / f"a{END}").unlink()
    assert ends.of("ours") == {}
    assert EndRecords(str(tmp_path / "nowhere")).of("ours") == {}


def test_sockets_that_nobody_listens_at_are_cleared_away_and_ends_are_kept_for_a_month(tmp_path: Path) -> None:
    written(tmp_path, "a")
    with socket(AF_UNIX) as heard, socket(AF_UNIX) as dead:
        heard.bind(str(tmp_path / "heard.sock"))
        heard.listen()
        dead.bind(str(tmp_path / "dead.sock"))
        names = {"heard.sock", f"a{END}"}
        now_us = round(os.stat(tmp_path / "dead.sock").st_mtime * 1e6)

        clear_away_the_dead(str(tmp_path), now_us=now_us)
        assert set(os.listdir(tmp_path)) == names | {"dead.sock"}, "it may be about to listen"
        clear_away_the_dead(str(tmp_path), now_us=now_us + HOUR_US)
        assert set(os.listdir(tmp_path)) == names
        clear_away_the_dead(str(tmp_path), now_us=now_us + 31 * 24 * HOUR_US)
        assert set(os.listdir(tmp_path)) == {"heard.sock"}
