"""The commands that run processes: everything (`up`), the API, a worker, MCP on stdio."""

import asyncio
import logging
import os
import signal
import sys
import time
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from api.cli.errors import explained_connection
from api.cli.output import waiting
from ingest.platform.addresses import client_key
from ingest.platform.exporting import exporting
from ingest.platform.processes import load_without_collecting, on_stop, wait_for_parent
from ingest.platform.settings import DROP_INS, Settings, from_environment, warnings
from ingest.secrets.redaction import log_to_stderr

POLL_S = 0.1
"""How often dead processes are looked for: a check costs microseconds, and requests fail until the next one."""


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
        with waiting(console, "starting") as tell, explained_connection(settings):
            supervisor.start(on_wait=tell)
        settings = supervisor.settings
        url = local_url(settings)
        if supervisor.notice:
            console.print(supervisor.notice)
        if supervisor.trouble:
            console.print(Text(supervisor.trouble, style="bold red"))
            console.print("`mnemolog admin log-file` shows details; with `acknowledge`, it removes this from health.")
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
    load_without_collecting()
    settings = _logged_settings(warn=True)
    from api.cli.api_processes import ApiProcesses, serve_api

    if settings.api_processes == 1 and sys.platform != "linux":
        wait_for_parent()
        serve_api(settings)  # elsewhere a fork lacks what libraries have set up, and outlives a parent that is killed
        return
    processes = ApiProcesses(settings)
    wait_for_parent()
    processes.run()


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
    with explained_connection(settings):
        if check:
            raise typer.Exit(0 if asyncio.run(alive(settings)) else 1)
        wait_for_parent()
        with exporting(os.environ, "worker"):
            uvloop.run(run(settings))


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
