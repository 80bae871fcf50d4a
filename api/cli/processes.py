"""The commands that run processes: everything (`up`), the API, a worker, MCP on stdio."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from api.cli.output import waiting
from ingest.errors import LogUnavailable
from ingest.platform.addresses import client_key, place_of
from ingest.platform.exporting import exporting
from ingest.platform.processes import load_without_collecting, on_stop, wait_for_parent
from ingest.platform.settings import DROP_INS, Settings, from_environment, warnings
from ingest.secrets.redaction import log_to_stderr

POLL_S = 0.1
"""How often dead processes are looked for: a check costs microseconds, and requests fail until the next one."""

if TYPE_CHECKING:
    from api.api_processes import ApiProcess


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    for command in (up, api, worker):
        app.command()(command)


def up(
    with_demo: Annotated[bool, typer.Option("--demo", help="Play the demo fleet and show what was recalled.")] = False,
    drop_in: Annotated[
        str,
        typer.Option(
            envvar="MNEMOLOG_DROP_IN",
            help=f"Also listen for clients of: {', '.join(DROP_INS)} (comma-separated), or all.",
        ),
    ] = "",
) -> None:
    """Run everything one machine needs, until Ctrl-C: Valkey (unless REDIS_URL is set), a worker, the API with MCP."""
    from api.cli.supervisor import Supervisor, local_url
    from api.dialects.registry import PORT_CLIENTS, ports_of

    console = Console(stderr=True)
    os.environ["MNEMOLOG_DROP_IN"] = drop_in
    settings = _logged_settings(warn=True)
    supervisor = Supervisor(settings)
    on_stop(signal.default_int_handler)
    try:
        with waiting(console, "starting") as tell, _explained(settings):
            supervisor.start(on_wait=tell)
        settings = supervisor.settings
        url = local_url(settings)
        if supervisor.notice:
            console.print(supervisor.notice)
        if supervisor.trouble:
            console.print(Text(supervisor.trouble, style="bold red"))
            console.print(
                "`mnemolog log-file` shows details; `mnemolog log-file acknowledge` removes this from health."
            )
        console.print(f"[bold]mnemolog is up[/] at {url} (MCP at {url}/mcp); data and logs in {settings.data_dir}")
        console.print(f"  viewer: {url}/viewer")
        for port, variable in ports_of(settings).items():
            if port != settings.port:
                console.print(f"  {PORT_CLIENTS[variable]} clients: port {port}")
        if with_demo:
            from api.cli.client import ApiClient
            from api.cli.demo import run_demo

            with ApiClient(url, client_key(url, os.environ)) as client:
                run_demo(client, Console())
        console.print("Ctrl-C stops it.")
        while True:
            time.sleep(POLL_S)
            supervisor.watch()
    except KeyboardInterrupt:
        pass
    finally:
        on_stop(signal.SIG_IGN)
        with waiting(console, "stopping"):
            supervisor.stop()
    console.print("stopped")


def api() -> None:
    """Serve the HTTP API and MCP (needs REDIS_URL)."""
    settings = _logged_settings(warn=True)
    if settings.api_processes > 1:
        from api.cli.api_processes import ApiProcesses

        wait_for_parent()
        ApiProcesses(settings).run()
        return
    load_without_collecting()
    serve_api(settings)


def serve_api(settings: Settings, api_process: "ApiProcess | None" = None) -> None:
    """Serve until a signal, alone or as one of several processes."""
    from api.access.binding import check_before_start
    from api.app import create_listeners
    from api.dialects.registry import ports_of, ports_of_one
    from api.http.serving import ConnectionLimits, serve

    with _explained(settings):
        listeners, ports = create_listeners(settings, api_process), set(ports_of(settings))
        wait_for_parent()
        if notice := asyncio.run(check_before_start(settings)):
            logging.getLogger(__name__).warning("%s", notice)
        if api_process is not None and not api_process.is_first:
            ports -= ports_of_one(settings)
        with exporting(os.environ, "api"):
            limits = ConnectionLimits(settings.head_seconds, settings.body_seconds, settings.connections)
            serve(listeners, settings.host, sorted(ports), limits, shared=api_process is not None)


def worker(
    check: Annotated[
        bool, typer.Option("--check", help="Only check whether a worker is alive (exit code 0 or 1).")
    ] = False,
) -> None:
    """Project the log into documents, and run the background jobs (needs REDIS_URL)."""
    load_without_collecting()
    from workers.main import alive
    from workers.main import main as run

    settings = _logged_settings()
    with _explained(settings):
        if check:
            raise typer.Exit(0 if asyncio.run(alive(settings)) else 1)
        wait_for_parent()
        with exporting(os.environ, "worker"):
            uvloop.run(run(settings))


@contextmanager
def _explained(settings: Settings) -> Generator[None]:
    """Turns connection errors into one that says what is missing, where, and what to do."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, LogUnavailable) as error:
        if settings.redis_url is None:
            raise LogUnavailable(str(error)) from error
        location, reason = place_of(settings.redis_url), str(error).rstrip(".")
        message = f"Redis at {location} does not answer: {reason}; start it, or point REDIS_URL at it"
        raise LogUnavailable(message) from error


def _logged_settings(*, warn: bool = False) -> Settings:
    """The settings of this process; sets up logging to stderr.

    With `warn`, it logs which variables of the imitated systems are ignored. Raises InvalidSetting.
    """
    settings = from_environment(os.environ)
    log_to_stderr(settings)
    for name in ("httpx", "httpx2", "arq.worker", "mcp.server.streamable_http", "mcp.server.streamable_http_manager"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    for warning in warnings(os.environ, settings.drop_in) if warn else ():
        logging.getLogger(__name__).warning("%s", warning)
    return settings


def main() -> None:
    """One of several API processes. Arguments: its number, the shared folder, whether other processes already serve."""
    load_without_collecting()
    from api.api_processes import ApiProcess

    settings = _logged_settings()
    number, folder, joins = sys.argv[1:4]
    serve_api(settings, ApiProcess(int(number), settings.api_processes, Path(folder), joins == "joins"))


if __name__ == "__main__":
    from api.cli.main import explained

    explained(main)
