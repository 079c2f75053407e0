"""A corpus of bad files, each with everything that is said about it. Renew the texts with: RENEW=1 pytest …"""

import os
from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.model.errors import Invalid

BAD = Path(__file__).parent / "bad"
GOOD = Path(__file__).parent / "good"


@pytest.mark.parametrize("name", sorted(path.stem for path in BAD.glob("*.toml")))
def test_a_bad_file_is_refused_with_everything_that_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    expected = BAD / f"{name}.txt"
    with pytest.raises(Invalid) as refused:
        load(str(BAD / f"{name}.toml"))
    said = f"{refused.value}\n"
    if "RENEW" in os.environ:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(path.stem for path in GOOD.glob("*.toml")))
def test_a_good_file_is_accepted(name: str) -> None:
    assert load(str(GOOD / f"{name}.toml")).agents


def test_every_message_begins_with_its_place() -> None:
    for path in BAD.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        problems = lines[1:] if "problems; nothing was changed" in lines[0] else lines
        assert all(line.strip().startswith(f"{path.stem}.toml") for line in problems), path.name
