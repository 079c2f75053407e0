"""Who is named in the audit."""

import os
from pwd import getpwuid

from fencepost.operations.asked_by import actor_of


def test_a_person_is_named_by_login_and_machine() -> None:
    assert actor_of({"USER": "ada"}) == f"ada@{os.uname().nodename}"
    assert actor_of({"LOGNAME": "ada"}) == f"ada@{os.uname().nodename}"


def test_without_a_variable_the_system_knows_the_name() -> None:
    assert actor_of({}) == f"{getpwuid(os.getuid()).pw_name}@{os.uname().nodename}"


def test_inside_of_a_run_it_is_the_run() -> None:
    assert actor_of({"USER": "ada", "FENCEPOST_RUN_ID": "r1"}) == "run:r1"
