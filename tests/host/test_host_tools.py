import pytest

from fencepost.host.host_tools import ask
from fencepost.model.errors import Misconfigured


def test_a_tool_answers_with_its_output_and_its_code() -> None:
    answer = ask("sh", "-c", "echo $$ $LC_ALL $TZ; echo lost >&2; exit 3")

    assert answer.text == f"{answer.pid} C UTC\n"
    assert answer.code == 3


def test_a_tool_that_is_missing_is_named() -> None:
    with pytest.raises(Misconfigured, match="'fencepost-no-such-tool' was not found"):
        ask("fencepost-no-such-tool")
