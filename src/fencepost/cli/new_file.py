"""New files for a person: written whole, and never over another one."""

import os

from fencepost.model.errors import Invalid


def write_new(path: str, text: str) -> None:
    """Write a file that is not there yet, whole or not at all; no other user may change it, whatever the umask says."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise Invalid(f"{path} is there already; nothing was written.") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # a full disk may show itself at its end, too
            file.write(text)
    except OSError as error:
        os.unlink(path)  # it is ours, and half a configuration may mean something else
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None
