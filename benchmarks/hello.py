"""The least an HTTP server in Python does: uvicorn with uvloop and httptools, one process, an answer of some bytes.

What a benchmark's own requests get from it, from the same clients, is the limit that its figures are put beside.
"""

import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from benchmarks.stack import free_ports

_BODY = b'{"hello":"' + b"x" * 480 + b'"}'
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())],
}


async def _app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send({"type": "http.response.body", "body": _BODY})


def _serve(port: int) -> None:
    import uvicorn

    app: Any = _app
    uvicorn.run(app, port=port, http="httptools", loop="uvloop", lifespan="off", log_level="error", access_log=False)


@contextmanager
def hello() -> Generator[str]:
    """The URL of such a server, which runs in a process of its own."""
    (port,) = free_ports(1)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port,), daemon=True)
    process.start()
    try:
        _wait_until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


def _wait_until_open(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("uvicorn does not start")
