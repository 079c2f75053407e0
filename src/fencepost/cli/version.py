"""`fencepost version`."""


def main(argv: list[str]) -> int:
    """Print the version, and with --json what else matters in a bug report."""
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
