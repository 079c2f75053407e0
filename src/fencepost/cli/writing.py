"""New files for a person: written whole, and never over another one."""

import os

from fencepost.model.errors import Invalid


def write_new(path: str, text: str) -> None:
    """Write a file that is not there yet, whole or not at all."""
    try:
        file = open(path, "x", encoding="utf-8")  # noqa: SIM115  # closed below, where a full disk may show itself too
    except FileExistsError:
        raise Invalid(f"{path} is there already; nothing was written.") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with file:
            file.write(text)
    except OSError as error:
        os.unlink(path)  # it is ours, and half a configuration may mean something else
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None
