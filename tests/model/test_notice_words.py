"""What a notice says to a person: why, in words, with the last lines and a link."""

import pytest

from fencepost.model.notice import LOG_MAX, last_lines, link_to, text_of, title_of

DEAD = {
    "tenant": "acme",
    "run_id": "r01",
    "schedule": "nightly",
    "reason": "exit_code",
    "exit_code": 3,
    "last_log": "Traceback\nboom",
    "link": "https://fp.example/runs/r01",
}


def test_a_dead_run_is_told_in_words_with_its_last_lines_and_a_link() -> None:
    text = text_of("dead", "2026-12-01T02:00:07Z", DEAD)

    assert title_of("dead", DEAD) == "nightly needs a person: the agent exited with code 3"
    assert "look at it: https://fp.example/runs/r01" in text
    assert text.endswith("its last lines:\nTraceback\nboom")
    assert "tenant acme" in text
    assert "exit_code" not in text


@pytest.mark.parametrize("reason", ["lost", "timeout", "stalled", "fence_refused", None, "of a newer program"])
def test_every_reason_has_words(reason: str | None) -> None:
    told = title_of("dead", {**DEAD, "reason": reason, "exit_code": None})

    assert told.startswith("nightly needs a person: ")
    assert len(told) > len("nightly needs a person: ")


def test_without_an_address_of_the_web_door_the_command_is_named() -> None:
    assert link_to("", DEAD) == ""
    assert "fencepost show r01" in text_of("dead", "now", {**DEAD, "link": ""})


def test_links_lead_to_the_run_or_to_the_schedule() -> None:
    assert link_to("https://fp.example/", DEAD) == "https://fp.example/runs/r01"
    assert link_to("https://fp.example", {"schedule": "a b"}) == "https://fp.example/schedules/a%20b"
    assert link_to("https://fp.example", {"tenant": "acme"}) == ""


def test_the_last_lines_are_few_and_steer_nothing() -> None:
    assert last_lines(None) == ""
    assert last_lines("\n".join(map(str, range(100)))).splitlines()[0] == "88"
    assert "\x1b" not in last_lines("\x1b[31mred\u202e")
    assert len(last_lines("x" * 10_000)) == LOG_MAX
