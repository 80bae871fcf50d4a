"""`mnemolog mcp`: the stdio bridge. One runs beside every agent's session, so this module imports little."""

import logging
import os
import sys
from typing import Annotated

import typer

from ingest.platform.addresses import client_key, fault_of_url
from ingest.platform.settings import from_environment
from mcp_gateway.bridge import Bridge, Message, member


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)


def mcp(
    profile: Annotated[
        str,
        typer.Option(
            envvar="MNEMOLOG_MCP_PROFILE",
            help="Tools to offer: native, files, inbox, agentmemory, memex, agent-memory (comma-separated), or all.",
            show_default="the server's setting",
        ),
    ] = "",
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to talk to.", show_default="http://127.0.0.1:3111"),
    ] = None,
) -> None:
    """Serve MCP on stdin and stdout, for clients that start a process; forwards to a server."""
    server = url or from_environment(os.environ).url
    if fault_of_url(server, secure=False):
        from api.cli.errors import InvalidUrl

        raise InvalidUrl(server)
    logging.basicConfig(level=logging.WARNING, format="mnemolog: %(message)s")
    profile = profile.strip()
    bridge = Bridge(server, client_key(server, os.environ), profile, sys.stdout.buffer, _Offline(profile).answer)
    try:
        bridge.run(sys.stdin.buffer)
    except KeyboardInterrupt:
        os._exit(130)  # without waiting for requests whose answers nobody reads


class _Offline:
    """This release's answers for a client of some profiles."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def answer(self, message: Message) -> Message | None:
        """The result of a request; none for what only the server knows. Raises UnknownProfile."""
        from api.dialects.profiles import PROFILES
        from mcp_gateway.offline import answer

        return answer(PROFILES.offer(PROFILES.chosen(self._profile)), message["method"], member(message, "params"))
