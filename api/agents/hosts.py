"""The coding agents that can be set up: which file of theirs says what, on this system."""

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from api.agents import entries, hook
from api.agents.entries import ShellCommand, Value


class Host(StrEnum):
    """Who is set up."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    CODEX = "codex"
    VSCODE = "vscode"


class Scope(StrEnum):
    """For everything a user does, or for the project in the working directory."""

    USER = "user"
    PROJECT = "project"


class Setup(NamedTuple):
    """One settings file of a host, and what installing and removing make of its value."""

    path: Path
    install: Callable[[Value], Value]
    remove: Callable[[Value], Value]
    comments: bool = False
    toml: bool = False


class System(NamedTuple):
    """Where files of programs are: the home folder, the working directory, the platform, the environment."""

    home: Path
    folder: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def configuration(self) -> Path:
        """The folder in which programs with windows keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library/Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData/Roaming")
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")


def setups(host: Host, scope: Scope, system: System, url: str) -> list[Setup]:
    """The files to set up; none when the host has no such scope. `url` is a server's other than the usual one."""
    server = bridge(url)
    user = scope is Scope.USER
    match host:
        case Host.CLAUDE_CODE:
            own = system.environ.get("CLAUDE_CONFIG_DIR")
            folder = Path(own) if own else system.home / ".claude"
            settings = folder / "settings.json" if user else system.folder / ".claude/settings.json"
            servers = (folder if own else system.home) / ".claude.json" if user else system.folder / ".mcp.json"
            return [
                Setup(settings, partial(entries.with_hooks, command=hook_line(url)), entries.without_hooks),
                _servers(servers, "mcpServers", server, type="stdio"),
            ]
        case Host.CLAUDE_DESKTOP:
            path = system.configuration() / "Claude/claude_desktop_config.json"
            return [_servers(path, "mcpServers", server)] if user else []
        case Host.CURSOR:
            path = (system.home if user else system.folder) / ".cursor/mcp.json"
            return [_servers(path, "mcpServers", server)._replace(comments=True)]
        case Host.CODEX:
            home = Path(system.environ.get("CODEX_HOME") or system.home / ".codex")
            path = (home if user else system.folder / ".codex") / "config.toml"
            return [_servers(path, "mcp_servers", server)._replace(toml=True)]
        case Host.VSCODE:
            path = system.configuration() / "Code/User/mcp.json" if user else system.folder / ".vscode/mcp.json"
            return [_servers(path, "servers", server, type="stdio")._replace(comments=True)]


def hook_line(url: str) -> str:
    """The shell command of our hook: the interpreter alone, without site packages, which starts fastest."""
    args = ("-I", "-S", str(Path(hook.__file__).resolve()), Host.CLAUDE_CODE.value, *([url] if url else []))
    return ShellCommand(sys.executable, args).line()


def bridge(url: str) -> ShellCommand:
    """The command of the MCP stdio bridge."""
    env = {"MNEMOLOG_URL": url} if url else {}
    script = Path(sys.executable).with_name("mnemolog.exe" if sys.platform == "win32" else "mnemolog")
    if script.exists():
        return ShellCommand(str(script), ("mcp",), env)
    return ShellCommand(sys.executable, ("-m", "api.cli.main", "mcp"), env)


def _servers(path: Path, section: str, command: ShellCommand, **extra: Any) -> Setup:
    return Setup(
        path,
        partial(entries.with_server, section=section, command=command, extra=extra),
        partial(entries.without_server, section=section),
    )
