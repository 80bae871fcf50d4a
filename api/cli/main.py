"""The command line: `mnemolog`. Composition root of every process."""

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

from api.cli import commands, demo
from api.cli.client import Client
from api.cli.supervisor import Supervisor, local_url
from ingest.errors import MnemologError
from ingest.settings import Settings, from_environment

app = typer.Typer(name="mnemolog", help="Shared memory for fleets of AI agents.", no_args_is_help=True)
commands.register(app)
demo.register(app)


@app.command()
def up(
    with_demo: Annotated[bool, typer.Option("--demo", help="Play the demo fleet and show what was recalled.")] = False,
) -> None:
    """Run everything one machine needs, until Ctrl-C: Valkey (unless REDIS_URL is set), a worker, the API with MCP."""
    console = Console(stderr=True)
    supervisor = Supervisor(_settings())
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _interrupt)
    try:
        with console.status("starting") as status:
            supervisor.start(on_wait=status.update)
        settings = supervisor.settings
        url = local_url(settings)
        console.print(f"[bold]mnemolog is up[/] at {url} (MCP at {url}/mcp); data and logs in {settings.data_dir}")
        if with_demo:
            with Client(url, settings.secret) as client:
                demo.run_demo(client, Console(), as_json=False)
        console.print("Ctrl-C stops it.")
        while True:
            time.sleep(0.5)
            supervisor.watch()
    except KeyboardInterrupt:
        pass
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)
        with console.status("stopping"):
            supervisor.stop()
    console.print("stopped")


@app.command()
def api() -> None:
    """Serve the HTTP API and MCP (needs REDIS_URL)."""
    import uvicorn

    from api.app import create_app

    settings = _settings()
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=75,
        proxy_headers=False,
        server_header=False,
        backlog=2048,
    )


@app.command()
def worker(
    check: Annotated[
        bool, typer.Option("--check", help="Only tell, by the exit code, whether a worker is alive.")
    ] = False,
) -> None:
    """Project the log into documents, and run the background jobs (needs REDIS_URL)."""
    from workers.main import alive
    from workers.main import main as run

    if check:
        raise typer.Exit(0 if asyncio.run(alive(_settings())) else 1)
    uvloop.run(run(_settings()))


@app.command()
def mcp() -> None:
    """Speak MCP on stdin and stdout, for clients that start a process; forwards to the server at MNEMOLOG_URL."""
    from mcp_gateway.stdio import bridge

    settings = _settings()
    asyncio.run(bridge(settings.url, settings.secret))


def main() -> None:
    """Entry point: errors of ours are one line, not a traceback."""
    try:
        app()
    except MnemologError as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False)
        sys.exit(1)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _settings() -> Settings:
    settings = from_environment(os.environ)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    for chatty in ("httpx", "httpx2", "arq.worker", "mcp.server.streamable_http"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
    return settings


if __name__ == "__main__":
    main()
