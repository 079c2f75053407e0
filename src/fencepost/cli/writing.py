"""New files for a person: written whole, and never over another one."""

from fencepost.model.errors import Invalid


def write_new(path: str, text: str) -> None:
    """Write a file that is not there yet."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Invalid(f"{path} is there already; nothing was written.") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None
