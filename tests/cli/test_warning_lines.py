"""What `up` warns of: once for all that it holds for."""

from fencepost.cli.up import warning_lines
from fencepost.operations.schedule_registry import Warned


def test_what_holds_for_many_agents_is_one_line_that_names_a_few() -> None:
    drained = [Warned("agent", f"a{number}", "a deploy ends its run.") for number in range(8)]
    other = Warned("schedule", "s", "it has no tick to come.")

    assert list(warning_lines([*drained, other])) == [
        "agents a0, a1, a2, a3, a4 and 3 more: a deploy ends its run.",
        "schedule s: it has no tick to come.",
    ]
    assert list(warning_lines(drained[:1])) == ["agent a0: a deploy ends its run."]
