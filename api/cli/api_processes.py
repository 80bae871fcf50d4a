"""`mnemolog api`: loads modules, model and the newest snapshot of the index, and forks the processes that serve.

They share the memory of what was loaded, each page until one of them changes it, so a second process needs less than
the first. One that is killed is replaced at once, with a snapshot loaded for it. This process serves nothing itself.

With several, each process listens itself, and the kernel balances connections across them (SO_REUSEPORT). So a process
that is killed or restarted drops only its own connections.
"""

import asyncio
import gc
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from api.access.binding import check_before_start
from api.api_processes import ApiProcess, shared_folder
from api.app import create_listeners
from api.cli.errors import explained, explained_connection
from api.cli.forks import Fork
from api.cli.supervisor import Child
from api.dialects.registry import ports_of, ports_of_one
from api.http.serving import ConnectionLimits, serve
from api.http.sockets import bind
from api.wiring import Preloaded
from ingest.platform.exporting import exporting
from ingest.platform.processes import give_back, on_stop
from ingest.platform.settings import Settings
from projections.embedding.factory import build_embedder
from projections.embedding.live import BUILT_IN
from projections.index import snapshots
from projections.vectors.embedder import Embedder, EmbeddingError
from projections.vectors.static import table_of

logger = logging.getLogger(__name__)

POLL_S = 0.05


def serve_api(settings: Settings, api_process: ApiProcess | None = None, preloaded: Preloaded | None = None) -> None:
    """Serve until a signal, alone or as one of several processes."""
    with explained_connection(settings):
        listeners, ports = create_listeners(settings, api_process, preloaded), set(ports_of(settings))
        if notice := asyncio.run(check_before_start(settings)):
            logger.warning("%s", notice)
        if api_process is not None and not api_process.is_first:
            ports -= ports_of_one(settings)
        with exporting(os.environ, "api"):
            limits = ConnectionLimits(settings.head_seconds, settings.body_seconds, settings.connections)
            serve(listeners, settings.host, sorted(ports), limits, shared=api_process is not None)


class ApiProcesses:
    """The API processes of the settings, on the same ports."""

    def __init__(self, settings: Settings) -> None:
        """Load the embedder, which takes a while: call it before waiting for something else."""
        self._settings = settings
        self.preloaded = Preloaded(_embedder(settings))
        """Memory that the next process shares. `load` fills it, `unload` empties it."""
        self._reserved: list[socket.socket] = []
        self._folder = Path()
        self._children: list[ForkedChild] = []
        self._stopped = False

    def run(self) -> None:
        """Run until a signal. Ends with the status of the first process if that fails before it has served."""
        on_stop(self._stop)
        try:
            if self._settings.api_processes > 1:
                self._share_ports()
            self._children = [
                ForkedChild(f"api-{number}", self._settings, partial(self._fork, number))
                for number in range(self._settings.api_processes)
            ]
            for child in self._children:
                child.start()
            while not self._stopped:
                self.unload()
                time.sleep(POLL_S)
                self._end_if_it_cannot_serve(self._children[0])
                for child in self._children:
                    child.restart_if_dead()
        finally:
            self._end()

    def _share_ports(self) -> None:
        # another program on a port would get some of the connections, so every port is bound alone first
        for port in ports_of(self._settings):
            for alone in bind(self._settings.host, port):
                alone.close()
        for port in ports_of(self._settings):
            self._reserved += bind(self._settings.host, port, shared=True)
        self._folder = shared_folder(self._settings)

    def _fork(self, number: int) -> Fork:
        self.load()
        give_back()
        gc.freeze()  # a collection would write to each object, and so copy its page
        api_process = None
        if self._settings.api_processes > 1:
            api_process = self._process(number, joins=number > 0 or self._process(number).has_served)
        return Fork(lambda: explained(partial(serve_api, self._settings, api_process, self.preloaded)))

    def load(self) -> None:
        """Load the newest snapshot, if none is loaded."""
        embedder, settings = self.preloaded.embedder, self._settings
        if self.preloaded.snapshot is None and embedder is not None and settings.search_engine is None:
            self.preloaded.snapshot = snapshots.load_newest(
                settings.snapshots, embedder.model, embedder.dimensions,
                table=table_of(embedder), partitions=settings.partitions,
            )  # fmt: skip

    def unload(self) -> None:
        """Free the snapshot: as the forked processes change their pages, this one would keep a second index."""
        if self.preloaded.take_snapshot() is not None:
            give_back()

    def _end_if_it_cannot_serve(self, first: "ForkedChild") -> None:
        if first.status > 0 and not (self._reserved and self._process(0).has_served):
            sys.exit(first.status)  # it has said why

    def _end(self) -> None:
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.stop()
        for reserved in self._reserved:
            reserved.close()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _process(self, number: int, *, joins: bool = False) -> ApiProcess:
        return ApiProcess(number, self._settings.api_processes, self._folder, joins)

    def _stop(self, number: int, frame: object) -> None:
        self._stopped = True


def _embedder(settings: Settings) -> Embedder | None:
    """The embedder of the settings, loaded; None if the processes that serve have to load it."""
    if settings.embedder not in BUILT_IN:  # its libraries may start threads, which a forked process lacks
        return None
    try:
        embedder = build_embedder(settings.embedder, cache=settings.cache_dir)
        embedder.embed([""])
    except EmbeddingError as error:  # the processes that serve say what it means
        logger.debug("the embedder was not loaded before the fork: %s", error)
        return None
    return embedder


class ForkedChild(Child):
    """A child that is forked, and writes to the log of this process."""

    def __init__(self, name: str, settings: Settings, fork: Callable[[], Fork]) -> None:
        super().__init__(name, settings)
        self._fork = fork

    def _spawn(self, *, gated: bool) -> Fork:
        return self._fork()

    @property
    def status(self) -> int:
        """Exit status of one that died, -N after signal N; 0 while it runs."""
        return (self._process and self._process.poll()) or 0

    def reason(self) -> str:
        """Where its output says why it ended."""
        return "see above"
