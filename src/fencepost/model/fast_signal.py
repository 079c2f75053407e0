"""The signal module without its enums: the numbers are numbers, and start-up is cheaper."""

# ruff: noqa: F403  # all of it, under the same names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import *
else:
    from _signal import *
