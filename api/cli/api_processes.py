"""`mnemolog api` with MNEMOLOG_API_PROCESSES: starts the processes, restarts those that die, holds the ports.

Each process listens itself, and the kernel balances connections across them (SO_REUSEPORT). So a process that is killed
or restarted drops only its own connections.
"""

import logging
import shutil
import socket
import sys
import time
from pathlib import Path

from api.api_processes import ApiProcess, shared_folder
from api.cli.supervisor import Child
from api.dialects.registry import ports_of
from api.http.sockets import bind
from ingest.errors import ServerStartFailed
from ingest.platform.processes import on_stop
from ingest.platform.settings import Settings

logger = logging.getLogger(__name__)

POLL_S = 0.2


class ApiProcesses:
    """The API processes of the settings, on the same ports."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reserved: list[socket.socket] = []
        self._folder = Path()
        self._children: list[Child] = []
        self._stopped = False

    def run(self) -> None:
        """Run until a signal. Raises ServerStartFailed if the first process ends before it has served."""
        on_stop(self._stop)
        try:
            # another program on a port would get some of the connections, so every port is bound alone first
            for port in ports_of(self._settings):
                for alone in bind(self._settings.host, port):
                    alone.close()
            for port in ports_of(self._settings):
                self._reserved += bind(self._settings.host, port, shared=True)
            self._folder = shared_folder(self._settings)
            self._children = [self._child(number) for number in range(self._settings.api_processes)]
            for child in self._children:
                child.start()
            while not self._stopped:
                time.sleep(POLL_S)
                for number, child in enumerate(self._children):
                    if child.died() and number == 0 and not self._has_served(number):
                        raise ServerStartFailed(
                            f"the first of {len(self._children)} API processes ended before it served"
                        )
                    child.restart_if_dead()
        finally:
            self._end()

    def _end(self) -> None:
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.stop()
        for reserved in self._reserved:
            reserved.close()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _child(self, number: int) -> Child:
        def command() -> list[str]:
            joins = number > 0 or self._has_served(number)
            module = "api.cli.processes"
            return [sys.executable, "-P", "-m", module, str(number), str(self._folder), "joins" if joins else "-"]

        return Child(f"api-{number}", self._settings, command=command)

    def _has_served(self, number: int) -> bool:
        return ApiProcess(number, self._settings.api_processes, self._folder, joins=False).has_served

    def _stop(self, number: int, frame: object) -> None:
        self._stopped = True
