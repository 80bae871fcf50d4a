"""Describes a dialect: an imitated system's applications, state, MCP profile and spool, declared in its `room.py`.

The stdio bridge and the supervisor also read these descriptions, so objects are named as `module:object` and imported
only when they are built.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ingest.platform.settings import Settings


class Listener(NamedTuple):
    """An application on ports of its own."""

    variable: str
    """The setting that names the ports."""
    clients: str
    """The clients that call these ports, for the operator."""
    ports: Callable[[Settings], tuple[int, ...]]
    create_app: str
    """A function of the settings and the MCP gateway; the process gives the application its state."""
    has_sessions: bool = False
    """Whether a client's requests must all reach the same process."""


class MainPort(NamedTuple):
    """An application on the main port, for some of its paths."""

    create_app: str
    prefixes: tuple[str, ...]
    pages: frozenset[str] = frozenset()

    def serves(self, path: str) -> bool:
        """Whether a request for a path is for this application."""
        return path in self.pages or any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.prefixes)


class Dialect(NamedTuple):
    """An imitated system. Its part of the main port is always served, its listeners only if `drop_in` names it."""

    name: str
    """Its name in the settings."""
    state: str
    """A class, constructed from the settings: the dialect's in-process state."""
    listeners: tuple[Listener, ...] = ()
    main_port: MainPort | None = None
    mcp_profile: str = ""
    """Its MCP tools."""
    hook_spool: str = ""
    """A function of the settings: the spool of events that hooks could not send."""
    importer: str = ""
    """A function of an import request: the source of what a system of the original has."""
    other_importers: Mapping[str, str] = {}
    """The same for other systems, by name, whose rows are like this one's."""

    @property
    def state_name(self) -> str:
        """The attribute of `app.state` that holds the dialect's state."""
        return self.name.replace("-", "_")
