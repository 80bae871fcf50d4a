"""`mnemolog api` with MNEMOLOG_API_PROCESSES: starts the processes, starts again what dies, holds the ports.

Each listens for itself, and the system deals the connections out among those that do (SO_REUSEPORT). So one that is
killed, or starts again, costs its own connections and nobody else's.
"""

import logging
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from api.api_processes import ApiProcess, shared_folder
from api.cli.supervisor import Child
from api.http.serving import bind, ports_of
from ingest.errors import ServerStartFailed
from ingest.platform.settings import Settings

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2


class ApiProcesses:
    """As many API processes as the settings say, on the same ports."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reserved: list[socket.socket] = []
        self._folder = Path()
        self._children: list[Child] = []
        self._stopped = False

    def run(self) -> None:
        """Until a signal ends it. Raises ServerStartFailed when the first one ends before it has served at all."""
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._stop)
        try:
            self._reserve()
            self._folder = shared_folder(self._settings)
            self._children = [self._child(number) for number in range(self._settings.api_processes)]
            for child in self._children:
                child.start()
            while not self._stopped:
                time.sleep(LOOK_EVERY_S)
                self._look()
        finally:
            self._end()

    def _reserve(self) -> None:
        """Hold every port: another program would get a part of the connections. Raises ServerStartFailed."""
        for port in ports_of(self._settings):
            for alone in bind(self._settings.host, port):
                alone.close()
        for port in ports_of(self._settings):
            self._reserved += bind(self._settings.host, port, shared=True)

    def _look(self) -> None:
        for number, child in enumerate(self._children):
            if child.died() and number == 0 and not self._sibling(number).has_served:
                raise ServerStartFailed(f"the first of {len(self._children)} API processes ended before it served")
            child.restart_if_dead()

    def _child(self, number: int) -> Child:
        def command() -> list[str]:
            joins = number > 0 or self._sibling(number).has_served
            return [
                sys.executable,
                "-m",
                "api.cli.api_process",
                str(number),
                str(self._folder),
                "joins" if joins else "-",
            ]

        return Child(f"api-{number}", self._settings, command=command)

    def _sibling(self, number: int) -> ApiProcess:
        return ApiProcess(number, self._settings.api_processes, self._folder, joins=False)

    def _stop(self, number: int, frame: object) -> None:
        self._stopped = True

    def _end(self) -> None:
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.stop()
        for one in self._reserved:
            one.close()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)
