"""`fencepost version`."""

HELP = """\
usage: fencepost version [options]

Print the version.

options:
  --json  with those of Python, SQLite and the time zone tables

examples:
  fencepost version --json
"""


def main(argv: list[str]) -> int:
    """Print the version, and with --json what else matters in a bug report."""
    if argv and argv[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    from importlib.metadata import version

    if argv == ["--json"]:
        import json
        import platform

        import apsw

        facts = {
            "fencepost": version("fencepost"),
            "python": platform.python_version(),
            "sqlite": apsw.sqlite_lib_version(),
            "tzdata": version("tzdata"),
        }
        print(json.dumps(facts))
    else:
        print(f"fencepost {version('fencepost')}")
    return 0
