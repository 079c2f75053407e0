"""A server that speaks S3: moto's, one request at a time.

moto compares If-Match and If-None-Match and then puts, in one request. Serving requests one after the other makes each
of them atomic, as S3 promises: no other request comes between the comparison and the put.

s3_server.py PORT [careless]     (careless: take conditions and ignore them, as many servers do that speak S3)
"""

import logging
import os
import sys
from threading import Thread
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


def main(port: str, *words: str) -> None:
    """Serve until the one who started us is gone, however that happened."""
    Thread(target=leave_with_parent, daemon=True).start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app: Any = DomainDispatcherApplication(create_backend_app)

    def careless(environ: dict[str, Any], start_response: Any) -> Any:  # noqa: ANN401
        return app({name: value for name, value in environ.items() if name not in CONDITIONS}, start_response)

    run_simple("127.0.0.1", int(port), careless if "careless" in words else app, threaded=False)


def leave_with_parent() -> None:
    """Wait for the end of stdin, which nobody writes to."""
    os.read(0, 1)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
