"""Who asks: the run that we are inside of, or a person on a machine."""

import os
from collections.abc import Mapping


def actor_of(environ: Mapping[str, str]) -> str:
    """Name the caller, for the audit."""
    run_id = environ.get("FENCEPOST_RUN_ID")
    return f"run:{run_id}" if run_id else f"{_login(environ)}@{os.uname().nodename}"


def _login(environ: Mapping[str, str]) -> str:
    """Name the person: by the environment, else as the system knows this user, else by number."""
    named = environ.get("USER") or environ.get("LOGNAME")
    if named:
        return named
    from pwd import getpwuid

    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"
