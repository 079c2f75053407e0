"""Small services on real servers: one report that is put and got, by ASGI (uvicorn) and by WSGI (wsgiref)."""

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn

from fencepost.gates.http.door import ServiceDoor
from fencepost.host.clock import SystemClock
from fencepost.service.proxy import Proxy, ProxyRules
from tests.support.scratch import free_port, wait_until

GATE_KEY = "the-key-of-this-test's-gate"


class Report:
    """What the service keeps."""

    def __init__(self) -> None:
        self.text: bytes | None = None
        self.seen: list[dict[str, str]] = []  # the headers of each request that wrote
        self.before_write: Callable[[], None] = lambda: None

    def put(self, body: bytes, headers: dict[str, str]) -> None:
        """Replace the report."""
        self.before_write()
        self.seen.append(headers)
        self.text = body


def asgi_app(report: Report) -> Any:  # noqa: ANN401  # ASGI's own types
    """Return a service that keeps the report."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        if scope["type"] == "lifespan":
            return
        status, content = 200, report.text
        if scope["method"] == "PUT":
            body, more = b"", True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return
                body, more = body + message.get("body", b""), message.get("more_body", False)
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            await asyncio.to_thread(report.put, body, headers)
            content = b""
        elif content is None:
            status, content = 404, b""
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})

    return app


def wsgi_app(report: Report) -> Any:  # noqa: ANN401  # WSGI's own types
    """Return a service that keeps the report."""

    def app(environ: dict[str, Any], start: Any) -> list[bytes]:  # noqa: ANN401
        if environ["REQUEST_METHOD"] == "PUT":
            headers = {
                name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name[:5] == "HTTP_"
            }
            report.put(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0)), headers)
            start("200 OK", [])
            return [b""]
        if report.text is None:
            start("404 Not Found", [])
            return [b""]
        start("200 OK", [("Content-Length", str(len(report.text)))])
        return [report.text]

    return app


@contextmanager
def asgi_served(app: Any) -> Iterator[str]:  # noqa: ANN401
    """Serve with uvicorn and yield the address."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, what="uvicorn serves", seconds=30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


class QuietHandler(WSGIRequestHandler):
    """Says nothing about each request."""

    def log_message(self, *_: object) -> None:
        pass


class ThreadingServer(socketserver.ThreadingMixIn, WSGIServer):
    """One thread per request."""

    daemon_threads = True


@contextmanager
def wsgi_served(app: Any) -> Iterator[str]:  # noqa: ANN401
    """Serve with wsgiref and yield the address."""
    server = make_server("127.0.0.1", free_port(), app, ThreadingServer, QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


@contextmanager
def proxy_before(upstream: str, folder: Path, **rules: Any) -> Iterator[str]:  # noqa: ANN401
    """Serve a fencing proxy before a service, and yield its address."""
    door = ServiceDoor(str(folder / "fences"), GATE_KEY, clock=SystemClock(), wait_seconds=2)
    proxy = Proxy(("127.0.0.1", free_port()), ProxyRules(upstream, **rules), door, SystemClock())
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.port}"
    finally:
        proxy.stop()
        thread.join(timeout=60)
