"""A service that keeps one report, behind the middleware: `service.py PORT FOLDER`."""

import os
import sys
from collections.abc import Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from fencepost.integrations.wsgi import FenceMiddleware

report: list[bytes] = [b"nothing"]


class Quiet(WSGIRequestHandler):
    """Says nothing about each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401  # WSGI's own
    """Put the report, or get it."""
    if environ["REQUEST_METHOD"] == "PUT":
        report[0] = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    start("200 OK", [("Content-Length", str(len(report[0])))])
    return [report[0]]


guarded = FenceMiddleware(app, marks=sys.argv[2], key=os.environ["GATE_KEY"])
make_server("127.0.0.1", int(sys.argv[1]), guarded, handler_class=Quiet).serve_forever()
