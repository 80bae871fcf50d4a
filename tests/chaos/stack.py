"""The system under chaos: an embedded Valkey, an API, two workers, and an embedding service that answers at once."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from api.cli import supervisor
from api.cli.supervisor import WORKER_NICENESS, Child, Supervisor
from ingest.platform.settings import Settings

DIMENSIONS = 16
LOOK_EVERY_S = 0.1
LONGEST_PAUSE_S = 1.0
"""What dies every few seconds would otherwise be left dead for most of a run."""


class Embeddings(BaseHTTPRequestHandler):
    """Stands for an embedding service: the same text gives the same vector, at once."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        rows = [{"index": n, "embedding": _vector(text)} for n, text in enumerate(texts)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _vector(text: str) -> list[float]:
    seed = int.from_bytes(sha256(text.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).tolist()


@contextmanager
def embedding_service() -> Generator[str]:
    """The URL of a running service."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeddings)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Stack(threading.Thread):
    """Owns all processes: starts them, starts again what dies, stops them.

    One thread for all of it: on Linux a child ends with the thread that started it. While somebody holds `hold`, what
    is dead stays dead.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="stack", daemon=True)
        supervisor.LONGEST_PAUSE_S = LONGEST_PAUSE_S
        self.supervisor = Supervisor(settings)
        self.settings = self.supervisor.settings
        self.second = Child("worker", self.settings, WORKER_NICENESS)
        self.second.log = self.settings.data_dir / "logs" / "worker-2.log"
        self.up, self.told_to_stop, self.hold = threading.Event(), threading.Event(), threading.Lock()
        self.error: Exception | None = None

    def run(self) -> None:
        """Until told to stop."""
        try:
            self.supervisor.start()
            self.second.start()
            self.up.set()
            while not self.told_to_stop.wait(LOOK_EVERY_S):
                with self.hold:
                    self.supervisor.watch()
                    self.second.restart_if_dead()
        except Exception as error:
            self.error = error
        finally:
            self.up.set()
            self.second.stop()
            self.supervisor.stop()

    def pid(self, name: str) -> int | None:
        """The process id of `api`, `worker`, `worker-2` or `valkey`; None while it is down."""
        own = self.supervisor
        process = {"api": own.api, "worker": own.worker, "worker-2": self.second, "valkey": own.valkey}[name]
        return process.pid if process else None

    @property
    def append_only_files(self) -> Path:
        """The folder of Valkey's append-only file."""
        return self.settings.data_dir / "valkey" / "appendonlydir"


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Stack]:
    """The processes, until the block ends; raises what stopped them."""
    stack = Stack(settings)
    stack.start()
    try:
        await asyncio.to_thread(stack.up.wait)
        if stack.error:
            raise stack.error
        yield stack
    finally:
        stack.told_to_stop.set()
        await asyncio.to_thread(stack.join, 90)
