"""The commands that run processes: everything at once (`up`), the API, a worker, MCP on stdio."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from api.cli.output import waiting
from ingest.errors import InvalidSetting, LogUnavailable
from ingest.platform.addresses import client_key, place_of
from ingest.platform.exporting import exporting
from ingest.platform.processes import load_without_collecting, wait_for_parent
from ingest.platform.settings import DROP_INS, Settings, from_environment, warnings
from ingest.secrets.redaction import formatter_of

WATCH_EVERY_S = 0.1
"""Between two looks for what has died: a look costs microseconds, and nobody is answered until one."""

if TYPE_CHECKING:
    from api.api_processes import ApiProcess


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    for command in (up, api, worker, mcp):
        app.command()(command)


def up(
    with_demo: Annotated[bool, typer.Option("--demo", help="Play the demo fleet and show what was recalled.")] = False,
    drop_in: Annotated[
        str,
        typer.Option(
            envvar="MNEMOLOG_DROP_IN",
            help=f"Listen for clients of these, too: {', '.join(DROP_INS)}, several by comma, or all.",
        ),
    ] = "",
) -> None:
    """Run everything one machine needs, until Ctrl-C: Valkey (unless REDIS_URL is set), a worker, the API with MCP."""
    from api.cli.supervisor import Supervisor, local_url
    from api.http.serving import PORT_CLIENTS, ports_of

    console = Console(stderr=True)
    os.environ["MNEMOLOG_DROP_IN"] = drop_in
    settings = logged_settings(os.environ)
    _warn_of_other_systems(settings)
    supervisor = Supervisor(settings)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _interrupt)
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
                "`mnemolog log-file` shows more; after `mnemolog log-file acknowledge` health tells no more of it."
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
                run_demo(client, Console(), as_json=False)
        console.print("Ctrl-C stops it.")
        while True:
            time.sleep(WATCH_EVERY_S)
            supervisor.watch()
    except KeyboardInterrupt:
        pass
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)
        with waiting(console, "stopping"):
            supervisor.stop()
    console.print("stopped")


def api() -> None:
    """Serve the HTTP API and MCP (needs REDIS_URL)."""
    settings = logged_settings(os.environ)
    _warn_of_other_systems(settings)
    if settings.api_processes > 1:
        from api.cli.api_processes import ApiProcesses

        wait_for_parent()
        ApiProcesses(settings).run()
        return
    load_without_collecting()
    serve_api(settings)


def serve_api(settings: Settings, api_process: "ApiProcess | None" = None) -> None:
    """Serve until a signal ends it, alone or beside the others of its server."""
    from api.access.gate import check_before_start
    from api.app import create_listeners
    from api.http.serving import ports_of, ports_of_one, serve

    with _explained(settings):
        listeners, ports = create_listeners(settings, api_process), set(ports_of(settings))
        wait_for_parent()
        if notice := asyncio.run(check_before_start(settings)):
            logging.getLogger(__name__).warning("%s", notice)
        if api_process is not None and not api_process.is_first:
            ports -= ports_of_one(settings)
        with exporting(os.environ, "api"):
            serve(listeners, settings.host, sorted(ports), shared=api_process is not None)


def worker(
    check: Annotated[
        bool, typer.Option("--check", help="Only tell, by the exit code, whether a worker is alive.")
    ] = False,
) -> None:
    """Project the log into documents, and run the background jobs (needs REDIS_URL)."""
    load_without_collecting()
    from workers.main import alive
    from workers.main import main as run

    settings = logged_settings(os.environ)
    with _explained(settings):
        if check:
            raise typer.Exit(0 if asyncio.run(alive(settings)) else 1)
        wait_for_parent()
        with exporting(os.environ, "worker"):
            uvloop.run(run(settings))


def mcp(
    profile: Annotated[
        str,
        typer.Option(
            envvar="MNEMOLOG_MCP_PROFILE",
            help="Tools to offer: native, agentmemory, memex, agent-memory, several by comma, or all.",
            show_default="what the server offers",
        ),
    ] = "",
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to talk to.", show_default="http://127.0.0.1:3111"),
    ] = None,
) -> None:
    """Speak MCP on stdin and stdout, for clients that start a process; forwards to a server."""
    from api.cli.client import InvalidUrl, host_of
    from api.dialects.registry import PROFILES
    from mcp_gateway.stdio import bridge

    settings = logged_settings(os.environ)
    server = url or settings.url
    try:
        host_of(server)
    except InvalidUrl as error:
        raise InvalidSetting(str(error)) from None
    asyncio.run(bridge(server, client_key(server, os.environ), PROFILES, profile))


@contextmanager
def _explained(settings: Settings) -> Generator[None]:
    """Turns what a process cannot work without into an error that says what, where, and what to do."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, LogUnavailable) as error:
        raise LogUnavailable(_unreachable(settings, error)) from error


def _unreachable(settings: Settings, error: Exception) -> str:
    if settings.redis_url is None:
        return str(error)
    place = place_of(settings.redis_url)
    why = str(error).rstrip(".")
    return f"the log's server at {place} does not answer: {why}; start it, or set REDIS_URL to where it is"


def _warn_of_other_systems(settings: Settings) -> None:
    """Say which variables of the imitated systems' servers are ignored; raises InvalidSetting for a contradiction."""
    for warning in warnings(os.environ, settings.drop_in):
        logging.getLogger(__name__).warning("%s", warning)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def logged_settings(environ: Mapping[str, str]) -> Settings:
    """The settings of a process, which logs to stderr from now on."""
    settings = from_environment(environ)
    written = logging.StreamHandler(sys.stderr)
    written.setFormatter(formatter_of(settings))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[written])
    for chatty in ("httpx", "httpx2", "arq.worker", "mcp.server.streamable_http", "mcp.server.streamable_http_manager"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
    return settings
