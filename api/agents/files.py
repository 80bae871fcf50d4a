"""The supported coding agents: their settings files, planned changes, and atomic writes.

The first change keeps a copy beside the file. Removing our entries restores that copy if nothing else changed since, so
that the file is the original, byte for byte.
"""

import difflib
import json
import os
import plistlib
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from api.agents import entries, hook, json_text, rules, toml_text
from api.agents.entries import ForeignFile, Remote, ShellCommand, Value
from api.agents.json_text import Unreadable
from api.agents.payloads import HOSTS
from ingest.errors import MnemologError
from ingest.platform.files import read_regular, write_whole

USUAL_URL = "http://127.0.0.1:3111"
"""The default server of hooks and bridge."""


class Host(StrEnum):
    """A coding agent."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    CODEX = "codex"
    VSCODE = "vscode"
    GEMINI_CLI = "gemini-cli"
    OPENCODE = "opencode"
    WINDSURF = "windsurf"
    ZED = "zed"


class Scope(StrEnum):
    """All of a user's work, or the project in the working directory."""

    USER = "user"
    PROJECT = "project"


class Format(NamedTuple):
    """Reads the value of a file's text, and writes a new one into it. Both raise Unreadable."""

    value: Callable[[str], Any]
    rewritten: Callable[[str, Any], str]


def _json(*, comments: bool) -> Format:
    def value(text: str) -> Value:
        settings: Any = json_text.parse(text, comments=comments) if text.strip() else {}
        if not json_text.is_object(settings):
            raise Unreadable("it is not an object")
        return settings

    def rewritten(text: str, new: Value) -> str:
        if text.strip():
            return json_text.rewrite(text, new, comments=comments)
        return json_text.write(new) if new else text

    return Format(value, rewritten)


JSON, JSON_WITH_COMMENTS = _json(comments=False), _json(comments=True)
TOML = Format(toml_text.parse, toml_text.rewrite)


def _replaced(_: str, new: str) -> str:
    return new


TEXT = Format(str, _replaced)
"""The value is the text itself."""


def _followed(path: Path) -> Path:
    return Path(os.path.realpath(path))  # without the exception of `resolve` for a link to itself


class Setup(NamedTuple):
    """One file of a host, with functions that install and remove our entries in its value."""

    path: Path
    install: Callable[[Any], Any]
    remove: Callable[[Any], Any]
    format: Format = JSON
    resolve: Callable[[Path], Path] = _followed
    """Follows links, and raises UnusableSettings for one that must not be followed."""


class System(NamedTuple):
    """The home folder, working directory, platform and environment, which determine file locations."""

    home: Path
    folder: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def configuration(self) -> Path:
        """The settings folder of desktop programs."""
        if self.platform == "darwin":
            return self.home / "Library/Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData/Roaming")
        return self.dot_config()

    def dot_config(self) -> Path:
        """The settings folder of terminal programs, on any platform."""
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")


def setups(
    host: Host,
    scope: Scope,
    system: System,
    url: str,
    *,
    prompts: bool | None = None,
    start: bool | None = None,
    stdio: bool | None = False,
) -> list[Setup]:
    """The files to set up; none if the host does not have the scope. `url` is a server other than the default.

    `prompts` and `start`: see `entries.with_hooks`. `stdio`: whether the host starts the
    bridge even if it can reach the server by its address; None keeps the current form, and is an address at first.
    """
    form = JSON if host in (Host.CLAUDE_CODE, Host.CLAUDE_DESKTOP, Host.CODEX) else JSON_WITH_COMMENTS
    files = _setups(host, scope, system, url, prompts, start, stdio)
    return _bounded(
        [setup._replace(format=TOML if setup.path.suffix == ".toml" else form) for setup in files], scope, system
    )


def rule_files(host: Host, scope: Scope, system: System) -> list[Setup]:
    """The files with rules on when to recall and remember; none if the host has no such file."""
    return _bounded(_rule_files(host, scope, system), scope, system)


def _bounded(files: list[Setup], scope: Scope, system: System) -> list[Setup]:
    resolve = partial(_of_owner, system.home)
    if scope is Scope.PROJECT:
        folders = (system.folder, *system.folder.parents)
        checkout = next((folder for folder in folders if (folder / ".git").exists()), system.folder)
        resolve = partial(_inside, _followed(checkout))
    return [setup._replace(resolve=resolve) for setup in files]


def _setups(
    host: Host, scope: Scope, system: System, url: str, prompts: bool | None, start: bool | None, stdio: bool | None
) -> list[Setup]:
    user = scope is Scope.USER
    root = system.home if user else system.folder

    hooks, servers = partial(_hooks, host, url, prompts, start), partial(_servers, url, stdio)
    match host:
        case Host.CLAUDE_CODE:
            own = Path(system.environ.get("CLAUDE_CONFIG_DIR") or system.home)
            path = own / ".claude.json" if user else system.folder / ".mcp.json"
            return [
                hooks(_claude(scope, system) / "settings.json"),
                servers(path, "mcpServers", Remote(type="http"), type="stdio"),
            ]
        case Host.CLAUDE_DESKTOP if user:
            return [servers(system.configuration() / "Claude/claude_desktop_config.json", "mcpServers")]
        case Host.CURSOR:
            return [hooks(root / ".cursor/hooks.json"), servers(root / ".cursor/mcp.json", "mcpServers", Remote())]
        case Host.CODEX:
            folder = _codex_home(system) if user else system.folder / ".codex"
            return [hooks(folder / "hooks.json"), servers(folder / "config.toml", "mcp_servers", Remote())]
        case Host.VSCODE:
            path = system.configuration() / "Code/User/mcp.json" if user else system.folder / ".vscode/mcp.json"
            return [servers(path, "servers", Remote(type="http"), type="stdio")]
        case Host.GEMINI_CLI:
            path = root / ".gemini/settings.json"
            return [hooks(path), servers(path, "mcpServers", Remote("httpUrl"))]
        case Host.OPENCODE:
            return [servers(_opencode(scope, system), "mcp", Remote(type="remote"), one_list=True, type="local")]
        case Host.WINDSURF if user:
            return [servers(system.home / ".codeium/windsurf/mcp_config.json", "mcpServers", Remote("serverUrl"))]
        case Host.ZED:
            path = (_zed(system) if user else system.folder / ".zed") / "settings.json"
            return [servers(path, "context_servers", Remote())]
        case _:
            return []


def _hooks(host: Host, url: str, prompts: bool | None, start: bool | None, path: Path) -> Setup:
    command = hook_line(host, url)
    install = partial(entries.with_hooks, command=command, prompts=prompts, start=start, host=HOSTS[host.value])
    return Setup(path, install, entries.without_hooks)


def _servers(
    url: str,
    stdio: bool | None,
    path: Path,
    section: str,
    remote: Remote | None = None,
    *,
    one_list: bool = False,
    **extra: Any,
) -> Setup:
    """`remote` is for a host that speaks streamable HTTP. A command that a user changed stays a command."""
    command, address = bridge(url), f"{(url or USUAL_URL).rstrip('/')}/mcp"

    def install(settings: Value) -> Value:
        command_now = entries.command_of(settings, section)
        if remote is None or stdio or command_now == "changed" or (stdio is None and command_now):
            return entries.with_server(settings, section, command, extra, one_list=one_list)
        return entries.with_address(settings, section, address, remote)

    return Setup(path, install, partial(entries.without_server, section=section))


def _rule_files(host: Host, scope: Scope, system: System) -> list[Setup]:
    user, text = scope is Scope.USER, rules.rules()

    def file(path: Path, content: str) -> Setup:
        return Setup(path, partial(rules.with_file, content=content), rules.without_file, TEXT)

    def block(path: Path) -> Setup:
        return Setup(path, partial(rules.with_block, content=text.body), rules.without_block, TEXT)

    match host:
        case Host.CLAUDE_CODE:
            return [file(_claude(scope, system) / "skills" / rules.SKILL / "SKILL.md", text.skill())]
        case Host.CURSOR if not user:
            return [file(system.folder / ".cursor/rules/mnemolog.mdc", text.always("cursor"))]
        case Host.CODEX:
            return [block((_codex_home(system) if user else system.folder) / "AGENTS.md")]
        case Host.VSCODE if not user:
            return [file(system.folder / ".github/instructions/mnemolog.instructions.md", text.always("vscode"))]
        case Host.GEMINI_CLI:
            return [block((system.home / ".gemini" if user else system.folder) / "GEMINI.md")]
        case Host.OPENCODE:
            # a file of ours, named in the settings, because an AGENTS.md would stop OpenCode from reading a CLAUDE.md
            settings, in_project = _opencode(scope, system), ".opencode/mnemolog.md"
            path = settings.with_name("mnemolog.md") if user else system.folder / in_project
            name = str(path) if user else in_project
            install = partial(entries.with_instruction, path=name)
            remove = partial(entries.without_instruction, path=name)
            return [Setup(settings, install, remove, JSON_WITH_COMMENTS), file(path, text.body)]
        case Host.WINDSURF:
            path = system.folder / ".windsurf/rules/mnemolog.md"
            shared = system.home / ".codeium/windsurf/memories/global_rules.md"
            return [block(shared) if user else file(path, text.always("windsurf"))]
        case Host.ZED:
            existing = (path for name in _READ_BY_ZED if (path := system.folder / name).is_file())
            return [block(_zed(system) / "AGENTS.md" if user else next(existing, system.folder / "AGENTS.md"))]
        case _:
            return []


def together(files: list[Setup]) -> list[Setup]:
    """The setups, merged per file."""
    by_path: dict[Path, Setup] = {}
    for setup in files:
        first = by_path.get(setup.path)
        by_path[setup.path] = setup if first is None else _one_after_the_other(first, setup)
    return list(by_path.values())


def _one_after_the_other(first: Setup, second: Setup) -> Setup:
    def install(value: Any) -> Any:
        return second.install(first.install(value))

    def remove(value: Any) -> Any:
        return second.remove(first.remove(value))

    return first._replace(install=install, remove=remove)


def _claude(scope: Scope, system: System) -> Path:
    if scope is Scope.PROJECT:
        return system.folder / ".claude"
    return Path(system.environ.get("CLAUDE_CONFIG_DIR") or system.home / ".claude")


def _codex_home(system: System) -> Path:
    return Path(system.environ.get("CODEX_HOME") or system.home / ".codex")


def _opencode(scope: Scope, system: System) -> Path:
    """Its settings file: .jsonc if it exists and .json does not."""
    folder = system.dot_config() / "opencode" if scope is Scope.USER else system.folder
    plain, commented = folder / "opencode.json", folder / "opencode.jsonc"
    return commented if commented.exists() and not plain.exists() else plain


def _zed(system: System) -> Path:
    if system.platform == "darwin":
        return system.home / ".config/zed"
    return system.configuration() / ("Zed" if system.platform == "win32" else "zed")


_READ_BY_ZED = (
    ".rules",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
    "AGENT.md",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
)
"""Zed only reads the first of these in a project (see "Project Instructions" in its documentation)."""


def hook_line(host: Host, url: str) -> str:
    """The shell command of our hook: the bare interpreter without site packages, which starts fastest."""
    args = ("-I", "-S", str(Path(hook.__file__).resolve()), host.value, *([url] if url else []))
    return ShellCommand(sys.executable, args).line()


def bridge(url: str) -> ShellCommand:
    """The command of the MCP stdio bridge."""
    return _program("mcp", {"MNEMOLOG_URL": url} if url else {})


def _program(name: str, env: Mapping[str, str]) -> ShellCommand:
    script = Path(sys.executable).with_name("mnemolog.exe" if sys.platform == "win32" else "mnemolog")
    if script.exists():
        return ShellCommand(str(script), (name,), env)
    return ShellCommand(sys.executable, ("-P", "-m", "mnemolog", name), env)


def service(system: System, port: int) -> Setup:
    """The user service that runs `mnemolog up` on a port, with the folders that this environment names."""
    folders = {name: value for name, value in system.environ.items() if _FOLDERS.fullmatch(name)}
    program, args, env = _program("up", {**folders, "MNEMOLOG_PORT": str(port)})
    if system.platform == "darwin":
        path = system.home / "Library/LaunchAgents/mnemolog.plist"
        fields = {"Label": "mnemolog", "ProgramArguments": [program, *args], "EnvironmentVariables": env}
        content = plistlib.dumps({**fields, "RunAtLoad": True, "KeepAlive": True}).decode()
    else:
        path = system.dot_config() / "systemd/user/mnemolog.service"
        variables = [f"{name}={value}" for name, value in env.items()]
        content = _UNIT.format(_words(program, *args), _words(*variables))
    install = partial(rules.with_file, content=content)
    return _bounded([Setup(path, install, rules.without_file, TEXT)], Scope.USER, system)[0]


def _words(*texts: str) -> str:
    """For systemd, which reads quotes and backslashes as JSON writes them."""
    return " ".join(json.dumps(text, ensure_ascii=False).replace("%", "%%") for text in texts)


_FOLDERS = re.compile(r"XDG_(CACHE|CONFIG|DATA|STATE)_HOME|MNEMOLOG_(CACHE_DIR|DATA_DIR|SPOOL)")
_UNIT = """\
[Unit]
Description=mnemolog, shared memory for AI agents

[Service]
ExecStart={}
Environment={}
KillMode=mixed
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
# """
"""The last line begins the comment with the digest of the text."""


BACKUP = ".before-mnemolog"
BOM = "\ufeff"


class UnusableSettings(MnemologError):
    """A settings file is left unchanged; the message says why."""

    code = "unusable_settings"


class SettingsChange(NamedTuple):
    """A settings file before and after; None is no file. `pristine`: it has no entries of ours yet."""

    path: Path
    before: str | None
    after: str | None
    pristine: bool = False
    resolve: Callable[[Path], Path] = _followed

    def diff(self) -> list[str]:
        """The lines of a unified diff; empty without changes."""
        old, new = self.before or "", self.after or ""
        names = (str(self.path) if self.before is not None else "/dev/null", str(self.path))
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
        return list(lines) or ([f"{self.path}: an empty file is deleted"] if self.before != self.after else [])


def installing(setup: Setup) -> SettingsChange:
    """The change that installs our entries. Raises UnusableSettings if the file is unreadable or foreign."""
    before = _read(setup.path, setup.resolve)
    pristine = before is not None and _made(setup, before, setup.remove) == before
    return SettingsChange(setup.path, before, _made(setup, before, setup.install), pristine, setup.resolve)


def removing(setup: Setup) -> SettingsChange:
    """The change that removes our entries: the original file, or the file without them. Raises like `installing`.

    It restores the original if installing into it gives the same as installing into the current file.
    """
    before = _read(setup.path, setup.resolve)
    if before is None:
        return SettingsChange(setup.path, None, None)
    after: str | None = _made(setup, before, setup.remove)
    original = _read(backup_of(setup.path), setup.resolve)
    if after == before:
        return SettingsChange(setup.path, before, before)
    if original is not None and _made(setup, original, setup.install) == _made(setup, before, setup.install):
        after = original
    elif original is None and not setup.format.value(after.removeprefix(BOM)):
        after = None  # we created it
    return SettingsChange(setup.path, before, after, resolve=setup.resolve)


def installed(system: System) -> list[tuple[Host, Path]]:
    """The user's and the current project's settings files that have entries of ours."""
    files: list[tuple[Host, Path]] = []
    for host, scope in product(Host, Scope):
        for setup in setups(host, scope, system, ""):
            with suppress(UnusableSettings):  # unreadable, so no entry of ours is active there
                change = removing(setup)
                if change.before != change.after:
                    files.append((host, setup.path))
    return files


def apply(change: SettingsChange) -> None:
    """Write or delete the file, following links and keeping its mode. Raises UnusableSettings."""
    backup = backup_of(change.path)
    try:
        path = change.resolve(change.path)
        if change.after is None:
            path.unlink(missing_ok=True)
            if path.parent.name == rules.SKILL:
                with suppress(OSError):  # the user has files in it
                    path.parent.rmdir()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if change.before is not None and change.pristine:
            _write(backup, change.before, like=path)
        _write(path, change.after, like=path)
        if not change.pristine and _read(backup, change.resolve) == change.after:
            backup.unlink(missing_ok=True)  # restored
    except OSError as error:
        raise UnusableSettings(f"{change.path} is not writable: {error.strerror or error}") from None


def backup_of(path: Path) -> Path:
    """The path of the original's copy."""
    return path.with_name(path.name + BACKUP)


def _made(setup: Setup, text: str | None, change: Callable[[Any], Any]) -> str:
    bom = BOM if text and text.startswith(BOM) else ""
    plain = (text or "").removeprefix(BOM)
    try:
        return bom + setup.format.rewritten(plain, change(setup.format.value(plain)))
    except (Unreadable, ForeignFile) as error:
        raise UnusableSettings(f"{setup.path}: {error}") from None


def _inside(checkout: Path, path: Path) -> Path:
    """Follow links, which the project's author made, unless they leave the checkout."""
    resolved = _followed(path)
    if not resolved.is_relative_to(checkout):
        raise UnusableSettings(f"{path} is a link to {resolved}, outside of {checkout}: replace it with a file")
    return resolved


def _of_owner(home: Path, path: Path) -> Path:
    """Follow links to files of the owner of the home folder: this user can be root, and the owner somebody else."""
    resolved = _followed(path)
    if resolved != path and _owner(resolved) != _owner(home):
        raise UnusableSettings(f"{path} is a link to {resolved}, which belongs to another user: replace it with a file")
    return resolved


def _owner(path: Path) -> int:
    """Return the owner of a file, or of the nearest folder above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists()).stat().st_uid


def _read(path: Path, resolve: Callable[[Path], Path]) -> str | None:
    try:
        return read_regular(resolve(path)).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UnusableSettings(f"{path}: byte {error.start} is not UTF-8") from None
    except OSError as error:
        raise UnusableSettings(f"{path} is not readable: {error.strerror or error}") from None


def _write(path: Path, text: str, *, like: Path) -> None:
    """Atomically, with the mode of `like`; a new file is private to its owner."""
    write_whole(path, text.encode(), like.stat().st_mode & 0o7777 if like.exists() else 0o600)
