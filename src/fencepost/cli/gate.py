"""`fencepost gate`: write through gates, raise them and look at them."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from fencepost.model.errors import FencepostError
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.operations import gates

if TYPE_CHECKING:
    from fencepost.ports.gate import GateStatus

WIDTH = 80
HTTP_FAILED = 400


def main(argv: list[str]) -> int:
    """Run one gate command and return its exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if argv else 2
    if argv[0] not in COMMANDS:
        print(f"fencepost gate: there is no command {argv[0]!r}. See 'fencepost gate --help'.", file=sys.stderr)
        return 2
    command, _ = COMMANDS[argv[0]]
    return command(argv[1:])


def write_file(argv: list[str]) -> int:
    """Replace a file by what comes from stdin."""
    parser = _parser("write-file", "fencepost gate write-file out/report.json < report.json")
    parser.add_argument("path", metavar="PATH", help="the file; its directory must exist")
    _add_proof(parser)
    args = parser.parse_args(argv)
    written = gates.write_file(_writer(args), args.path, sys.stdin.buffer)
    if args.json:
        _print_json(written._asdict())
    return 0


def publish_dir(argv: list[str]) -> int:
    """Switch a directory to a copy of another one."""
    parser = _parser("publish-dir", "fencepost gate publish-dir build/ www/site")
    parser.add_argument("source", metavar="SOURCE", help="the directory to copy")
    parser.add_argument("path", metavar="DEST", help="the name that readers know; a symlink that the gate switches")
    _add_proof(parser)
    args = parser.parse_args(argv)
    written = gates.publish_directory(_writer(args), args.source, args.path)
    if args.json:
        _print_json(written._asdict())
    return 0


def write_sql(argv: list[str]) -> int:
    """Run what comes from stdin in one gated transaction."""
    parser = _parser("write-sql", "fencepost gate write-sql ledger-db < close-month.sql")
    parser.add_argument("target", metavar="TARGET", help="sql:env:NAME, or the name of a gate of kind sql")
    _add_proof(parser)
    args = parser.parse_args(argv)
    written = gates.write_sql(_writer(args), args.target, sys.stdin.buffer.read().decode())
    if args.json:
        _print_json(written._asdict())
    return 0


def send(argv: list[str]) -> int:
    """Send a request with the run's fence, its body from stdin."""
    parser = _parser("send", "fencepost gate send shop POST /orders < order.json")
    parser.add_argument("target", metavar="TARGET", help="http:URL, or the name of a gate of kind http")
    parser.add_argument("method", metavar="METHOD", help="POST, PUT, PATCH, DELETE …")
    parser.add_argument("path", metavar="PATH", help="the path, from / on")
    _add_proof(parser)
    args = parser.parse_args(argv)
    status, answer = gates.send_http(_writer(args), args.target, args.method, args.path, sys.stdin.buffer.read())
    if not args.quiet:
        sys.stdout.buffer.write(answer)
    if status >= HTTP_FAILED:
        _tell(f"the service answered {status}")
        return 1
    return 0


def proxy(argv: list[str]) -> int:
    """Stand before a service that cannot compare fences."""
    parser = _parser(
        "proxy", "fencepost gate proxy --upstream http://127.0.0.1:8000 \\\n    --marks fences --key env:GATE_KEY"
    )
    parser.add_argument("--upstream", metavar="URL", required=True, help="the service, reached through here alone")
    parser.add_argument("--marks", metavar="FOLDER", required=True, help="where the marks are kept, on a local disk")
    parser.add_argument("--key", metavar="env:NAME", required=True, help="what raises the fence: env:NAME or file:PATH")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:7421", help="default: 127.0.0.1:7421")
    parser.add_argument(
        "--allow", metavar="'METHOD /PATH'", action="append", default=[], help="let only such pass (repeatable)"
    )
    parser.add_argument("--deadline", metavar="D", type=_seconds, default="30s", help="for one request (default: 30s)")
    parser.add_argument(
        "--closed", metavar="D", type=_seconds, default="60s", help="after an unknown outcome (default: 60s)"
    )
    args = parser.parse_args(argv)
    from fencepost.wiring.fencing import serve_proxy

    return serve_proxy(
        args.listen,
        args.upstream,
        marks=args.marks,
        key=args.key,
        allow=args.allow,
        deadline=args.deadline,
        closed=args.closed,
    )


def _seconds(text: str) -> float:
    """Read a duration; a bare number is seconds, as it always was here."""
    from fencepost.model.duration import parse_duration

    return parse_duration(f"{text}s" if text[-1:].isdigit() else text)


def write_s3(argv: list[str]) -> int:
    """Replace an object by what comes from stdin."""
    parser = _parser("write-s3", "fencepost gate write-s3 s3:s3://reports/latest.json < report.json")
    parser.add_argument("target", metavar="TARGET", help="s3:s3://BUCKET/KEY, or the name of a gate of kind s3")
    _add_proof(parser)
    args = parser.parse_args(argv)
    written = gates.write_s3(_writer(args), args.target, sys.stdin.buffer.read())
    if args.json:
        _print_json(written._asdict())
    return 0


def read_s3(argv: list[str]) -> int:
    """Print the newest data of an object behind a gate."""
    parser = _parser("read-s3", "fencepost gate read-s3 s3:s3://reports/latest.json > report.json")
    parser.add_argument("target", metavar="TARGET", help="s3:s3://BUCKET/KEY, or the name of a gate of kind s3")
    args = parser.parse_args(argv)
    data = gates.read_s3(args.target)
    if data is None:
        _tell(f"{args.target}: nothing was written yet")
        return 1
    sys.stdout.buffer.write(data)
    return 0


def write_redis(argv: list[str]) -> int:
    """Set a key to what comes from stdin."""
    parser = _parser("write-redis", "fencepost gate write-redis redis:env:CACHE_URL report < report.json")
    parser.add_argument("target", metavar="TARGET", help="redis:env:NAME, or the name of a gate of kind redis")
    parser.add_argument("key", metavar="KEY", help="the key to set")
    _add_proof(parser)
    args = parser.parse_args(argv)
    written = gates.write_redis(_writer(args), args.target, args.key, sys.stdin.buffer.read())
    if args.json:
        _print_json(written._asdict())
    return 0


def sql_guard(argv: list[str]) -> int:
    """Put tables behind the gate of their database."""
    parser = _parser("sql-guard", "fencepost gate sql-guard ledger-db journal posting --print")
    parser.add_argument("target", metavar="TARGET", help="sql:env:NAME, or the name of a gate of kind sql")
    parser.add_argument("table", metavar="TABLE", nargs="+", help="a table to guard")
    parser.add_argument("--resource", metavar="KIND:NAME", default="", help="let only writers pass that hold this")
    parser.add_argument("--tenant", default="default", help="whose resource that is (default: default)")
    parser.add_argument("--remove", action="store_true", help="take the guard away again")
    parser.add_argument("--print", action="store_true", help="print the definitions instead of carrying them out")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    args = parser.parse_args(argv)
    definitions = gates.guard_tables(
        args.target, args.table, resource=args.resource, tenant=args.tenant, remove=args.remove, act=not args.print
    )
    if args.print:
        print("\n\n".join(f"{definition};" for definition in definitions))
    elif not args.quiet:
        print(f"{', '.join(args.table)}: {'no longer ' if args.remove else ''}guarded")
    return 0


def git_push(argv: list[str]) -> int:
    """Push a commit to a gated branch."""
    parser = _parser("git-push", "fencepost gate git-push git:git@host:team/site.git#branch=main")
    parser.add_argument("target", metavar="TARGET", help="git:URL#branch=NAME, or the name of a gate of kind git")
    parser.add_argument("revision", metavar="REVISION", nargs="?", default="HEAD", help="what to push (default: HEAD)")
    parser.add_argument("--clone", metavar="PATH", default=".", help="the clone that has it (default: here)")
    _add_proof(parser)
    args = parser.parse_args(argv)
    writer = _writer(args)
    commit = gates.push_git(writer, args.target, args.revision, clone=args.clone)
    if args.json:
        _print_json({"target": args.target, "fence": writer.proof.fence, "commit": commit})
    elif not args.quiet:
        print(f"{args.target} is at {commit[:12]}")
    return 0


def git_hook(argv: list[str]) -> int:
    """Install the hooks of a repository, or be one of them."""
    parser = _parser("git-hook", "fencepost gate git-hook install /srv/git/site.git")
    parser.add_argument("what", choices=("install", "pre-receive", "reference-transaction"), help="install, or a hook")
    parser.add_argument("rest", metavar="REPOSITORY", nargs="*", help="the bare repository (default: here)")
    args = parser.parse_args(argv)
    if args.what == "install":
        for path in gates.install_git_hooks(args.rest[0] if args.rest else "."):
            print(path)
    elif args.what == "pre-receive" or args.rest[:1] == ["prepared"]:
        gates.judge_git(sys.stdin.read().splitlines(), refs_are_locked=args.what == "reference-transaction")
    return 0


def git_remote(argv: list[str]) -> int:
    """Be the helper through which git pushes in a run."""
    parser = _parser("git-remote", "git push    # in a run with a gate of kind git, which sets this up by itself")
    parser.add_argument("name", metavar="NAME", help="the remote, as git calls it")
    parser.add_argument("address", metavar="URL", help="where it is")
    args = parser.parse_args(argv)
    from fencepost.operations.git_remote import serve_git  # the other verbs do without it

    serve_git(args.address)
    return 0


def raise_gates(argv: list[str]) -> int:
    """Lift the marks of each target to the fence."""
    parser = _parser("raise", "fencepost gate raise file:out/report.json file:site/")
    _add_targets(parser)
    parser.add_argument(
        "--adopt", action="store_true", help="take over a gate whose marks are of another store, or broken"
    )
    _add_proof(parser)
    args = parser.parse_args(argv)
    writer = _writer(args)
    for target in args.target:
        status = gates.raise_gate(writer, target, adopt=args.adopt)
        _show(status, args, f"{status.target} is at fence {writer.proof.fence}")
    return 0


def status(argv: list[str]) -> int:
    """Show what each target remembers; a gate that cannot be read does not hide the others."""
    parser = _parser("status", "fencepost gate status file:out/report.json --json")
    _add_targets(parser)
    _add_output(parser)
    args = parser.parse_args(argv)
    worst = 0
    for target in args.target:
        try:
            found = gates.status(target)
        except FencepostError as error:
            _tell(str(error))
            worst = max(worst, error.exit_code)
        else:
            _show(found, args, "\n".join(_lines(found)))
    return worst


def check(argv: list[str]) -> int:
    """Ask whether a write would pass now."""
    parser = _parser("check", "fencepost gate check file:out/report.json && echo go on")
    parser.add_argument("target", metavar="TARGET", nargs="?", help="kind:where; without it, only the run's lease")
    _add_proof(parser)
    args = parser.parse_args(argv)
    writer = _writer(args)
    gates.check(writer, args.target)
    if args.json:
        _print_json({"ok": True, "target": args.target, "fence": writer.proof.fence})
    return 0


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "write-file": (write_file, "replace a file by stdin, if the fence still passes"),
    "publish-dir": (publish_dir, "switch a directory to a copy of another, if the fence passes"),
    "write-sql": (write_sql, "run SQL from stdin in one transaction, if the fence still passes"),
    "sql-guard": (sql_guard, "put tables behind a trigger that refuses writers without a fence"),
    "send": (send, "send an HTTP request that shows the fence, its body from stdin"),
    "proxy": (proxy, "compare fences before a service that cannot do so itself"),
    "write-s3": (write_s3, "replace an S3 object by stdin, if the fence still passes"),
    "read-s3": (read_s3, "print an S3 object that is behind a gate"),
    "write-redis": (write_redis, "set a Redis key to stdin, if the fence still passes"),
    "git-push": (git_push, "push a commit to a gated branch, forward only"),
    "git-hook": (git_hook, "let a git server refuse pushes whose fence is missing or stale"),
    "git-remote": (git_remote, "let git's own push in a run go through its gates"),
    "raise": (raise_gates, "lift the marks of targets, so that older fences are refused"),
    "status": (status, "show which fences targets have seen"),
    "check": (check, "ask whether a write would pass now"),
}


def overview() -> str:
    """Say what there is."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fencepost gate COMMAND ...",
            "",
            "A gate compares fences where the write lands: a replaced holder cannot write.",
            "",
            "commands:",
            *lines,
            "",
            "exit codes: 0 passed, 2 usage, 77 refused (stop: a newer run has started),",
            "78 the gate is not usable",
            "",
            "examples:",
            "  fencepost gate write-file out/report.json < report.json",
            "  fencepost gate status file:out/report.json",
            "",
            "'fencepost gate COMMAND --help' shows options and an example.",
        ]
    )


def _parser(name: str, example: str) -> ArgumentParser:
    return ArgumentParser(
        prog=f"fencepost gate {name}",
        description=COMMANDS[name][1],
        epilog=f"example:\n  {example}",
        # With a width it need not ask for the terminal's, which costs an import of shutil on every write.
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=WIDTH),
        allow_abbrev=False,
    )


def _add_targets(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="TARGET", nargs="+", help="kind:where, or the name of a gate in the configuration"
    )


def _add_proof(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--resource",
        metavar="KIND:NAME",
        action="append",
        default=[],
        help="what the fence is for (repeatable; default: $FENCEPOST_RESOURCE)",
    )
    parser.add_argument("--fence", metavar="N", help="the fence (default: $FENCEPOST_FENCE)")
    _add_output(parser)


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def _writer(args: Namespace) -> gates.GateWriter:
    return gates.writer_from(os.environ, resources=args.resource, fence=args.fence)


def _show(status: "GateStatus", args: Namespace, text: str) -> None:
    if args.json:
        _print_json(_document(status))
    elif not args.quiet:
        print(text)
    if not args.quiet and not args.json:
        for warning in status.warnings:
            _tell(f"warning: {status.target}: {warning}")


def _tell(text: str) -> None:
    from fencepost.model.terminal_text import tame  # most writes have nothing to say

    print(f"fencepost: {tame(text)}", file=sys.stderr)


def _lines(status: "GateStatus") -> list[str]:
    if not status.marks:
        return [f"{status.target}  no fence seen yet"]
    return [
        f"{status.target}  {key.partition(' ')[2] or 'all others'}  fence {mark.fence}  at {_instant(mark.at_us)}"
        + (f"  run {mark.run_id}" if mark.run_id else "")
        + (f"  host {mark.host}" if mark.host else "")
        for key, mark in sorted(status.marks.items())
    ]


def _document(status: "GateStatus") -> dict[str, object]:
    marks = []
    for key, mark in sorted(status.marks.items()):
        tenant, _, resource = key.partition(" ")
        fields = {"tenant": tenant, "resource": resource or "*", **mark._asdict(), "at": _instant(mark.at_us)}
        del fields["at_us"]
        marks.append(fields)
    return {"target": status.target, "marks": marks, "warnings": list(status.warnings)}


def _instant(at_us: int) -> str:
    from time import gmtime, strftime

    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(at_us // 1_000_000)) + f".{at_us % 1_000_000:06}Z"


def _print_json(document: dict[str, object]) -> None:
    import json

    print(json.dumps(document))
