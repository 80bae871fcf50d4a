"""`mnemolog install` and `mnemolog uninstall`: our MCP server, rules and hooks in an agent's files, and the service."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import typer
from msgspec.structs import replace

from api.agents import files as agents
from api.agents import recording
from api.agents.payloads import HOSTS
from api.cli.client import host_of, probe
from api.cli.output import Failed, Output, WrongCommand
from api.cli.rows import Yes, add, on_machine
from ingest.platform.addresses import KEY_VARIABLES, client_key
from ingest.platform.settings import Settings, from_environment

S = TypeVar("S")
R = TypeVar("R")

_NOTES = {
    (agents.Host.CURSOR, agents.Scope.USER):
        "no rules written: Cursor keeps user rules in its settings; use --scope project for a file",
    (agents.Host.VSCODE, agents.Scope.USER):
        "no rules written: VS Code keeps user rules in a profile; use --scope project for a file",
    (agents.Host.WINDSURF, agents.Scope.PROJECT):
        "Windsurf has no MCP servers per project: also install it without --scope",
}  # fmt: skip
"""Files that a host does not have."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}

ToWhom = Annotated[agents.Host | None, typer.Argument(help="The coding agent.", show_default=False)]
ForWhom = Annotated[agents.Scope, typer.Option(help="For all your work, or for the project in the working directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes without writing them.")]
Prompts = Annotated[
    bool | None,
    typer.Option(
        "--prompts/--no-prompts",
        help="Claude Code, Codex, Gemini CLI: recall on every prompt (default: off; keeps the current setting).",
        show_default=False,
    ),
]
Start = Annotated[
    bool | None,
    typer.Option(
        "--start/--no-start",
        help="Hooks start the server on this machine when it is down (default: off; keeps the current setting).",
        show_default=False,
    ),
]
Service = Annotated[bool, typer.Option("--service", help="The user service (systemd, launchd) that runs the server.")]
NoRules = Annotated[bool, typer.Option("--no-rules", help="Do not add the rules on when to recall and remember.")]
Stdio = Annotated[
    bool | None,
    typer.Option(
        "--stdio/--http",
        help="Have the host start a bridge, which also works while the server is down, or connect by HTTP (default: "
        "HTTP if the server requires no key; keeps the current setting).",
        show_default=False,
    ),
]
ForServer = Annotated[
    str | None,
    typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to set up.", show_default="http://127.0.0.1:3111"),
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, install, "install claude-code")
    add(app, uninstall, "uninstall claude-code --dry-run")


@on_machine
def install(
    output: Output,
    host: ToWhom = None,
    scope: ForWhom = agents.Scope.USER,
    prompts: Prompts = None,
    start: Start = None,
    service: Service = False,
    no_rules: NoRules = False,
    stdio: Stdio = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: ForServer = None,
) -> None:
    """Configure a coding agent to use mnemolog (MCP server, rules, hooks), or run the server as a service.

    Shows a diff, and asks before writing.
    """
    if Path(sys.prefix).parent.name.startswith(("archive-v", "environments-v")):  # of uv; the files name this path
        raise WrongCommand(
            f"uvx runs this from a cache; first: uv tool install mnemolog, then: mnemolog install {host or '--service'}"
        )
    settings = from_environment(os.environ)
    settings = replace(settings, url=url or settings.url)
    host_of(settings.url)
    _check(host, settings, prompts, start, service)
    # the bridge reads the stored key; an address would need the key in the host's file
    if stdio is None and (client_key(settings.url, os.environ) is not None or _requires_key(settings.url)):
        stdio = True
    unit = agents.service(_system(), urlsplit(settings.url).port or 80)
    files = [unit] * service
    if host is not None:
        files += agents.setups(host, scope, _system(), _url(settings), prompts=prompts, start=start, stdio=stdio)
        if not no_rules:
            files += agents.rule_files(host, scope, _system())
            if note := _NOTES.get((host, scope)):
                output.note(note)
    if _change(output, host, scope, files, agents.installing, dry_run=dry_run, yes=yes) and host is not None:
        _advise(output, host, settings)
    if service and not dry_run and (change := agents.installing(unit)).before == change.after:
        _switch(output, unit.path, on=True)


def _check(
    host: agents.Host | None, settings: Settings, prompts: bool | None, start: bool | None, service: bool
) -> None:
    """Raise WrongCommand for options that the host or the server does not have."""
    if start is not None and host not in HOSTS:
        raise WrongCommand(f"--start and --no-start are for coding agents with hooks: {', '.join(HOSTS)}")
    if prompts is not None and (host not in HOSTS or recording.PROMPT_EVENT not in HOSTS[host].text_events):
        raise WrongCommand(f"{host or 'a service'} has no prompt hooks that add text; omit --prompts and --no-prompts")
    if (start or service) and (settings.redis_url or recording.local_address(settings.url) is None):
        other = "REDIS_URL" if settings.redis_url else settings.url
        raise WrongCommand(f"--start and --service are for a server on this machine with its own Valkey, not {other}")


@on_machine
def uninstall(
    output: Output,
    host: ToWhom = None,
    scope: ForWhom = agents.Scope.USER,
    service: Service = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove exactly what `mnemolog install` added to a coding agent's files, or the service."""
    settings = from_environment(os.environ)
    unit = agents.service(_system(), settings.port)
    files = [unit] * service
    if host is not None:
        files += agents.setups(host, scope, _system(), _url(settings), prompts=False, start=False)
        files += agents.rule_files(host, scope, _system())
    _change(output, host, scope, files, agents.removing, dry_run=dry_run, yes=yes)
    if not service and unit.path.exists():
        output.note("the service still runs the server: `mnemolog uninstall --service` removes it")


def _system() -> agents.System:
    return agents.System(Path.home(), Path.cwd(), os.environ)


def _requires_key(url: str) -> bool:
    return probe(f"{url.rstrip('/')}/readyz", timeout_s=1).status_code == 401


def _url(settings: Settings) -> str:
    """The URL for entries; empty for the default server."""
    return "" if settings.url == agents.USUAL_URL else settings.url


def _change(
    output: Output,
    host: agents.Host | None,
    scope: agents.Scope,
    files: list[agents.Setup],
    plan: Callable[[agents.Setup], agents.SettingsChange],
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Plan, show, ask, write; true if files were written. Exits 1 if a file cannot be changed, 2 for wrong usage."""
    if not files:
        raise WrongCommand(f"{host} has no project settings; omit --scope" if host else "name an agent, or --service")
    changes, errors = _each(plan, agents.together(files))
    for line in (line for change in changes for line in change.diff()):
        output.line(line, style=_STYLES.get(line[:1], ""))
    for error in errors:
        output.note(f"left unchanged: {error}")
    to_write = [change for change in changes if change.before != change.after]
    write = bool(to_write) and not dry_run
    if write and not yes:
        if output.as_json or not sys.stdin.isatty():
            raise WrongCommand("not a terminal; pass --yes to apply, or --dry-run")
        write = typer.confirm("Write this?", err=True)
    lines, failures = _each(partial(_write, output), to_write if write else ())
    for line in lines:
        output.line(line)
    for error in failures:
        output.note(error)
    errors += failures
    output.document(
        {
            "host": host,
            "scope": scope.value,
            "written": write,
            "files": [{"path": str(change.path), "diff": "\n".join(change.diff())} for change in changes],
            "faults": errors,
        }
    )
    if not to_write and not errors:
        output.line("nothing to change")
    if errors:
        raise Failed
    return write


def _each(change: Callable[[S], R], items: Iterable[S]) -> tuple[list[R], list[str]]:
    """The results, and the errors of files that cannot be changed."""
    results: list[R] = []
    errors: list[str] = []
    for item in items:
        try:
            results.append(change(item))
        except agents.UnusableSettings as error:
            errors.append(str(error))
    return results, errors


def _write(output: Output, change: agents.SettingsChange) -> str:
    if change.after is None and change.path.suffix in (".service", ".plist"):
        _switch(output, change.path, on=False)
    agents.apply(change)
    backup = f"; backup: {agents.backup_of(change.path)}" if change.pristine else ""
    return f"{'deleted' if change.after is None else 'written'}: {change.path}{backup}"


def _switch(output: Output, unit: Path, *, on: bool) -> None:
    """Start or stop the service, now and at login; if that fails, print the command."""
    command = ["systemctl", "--user", "enable" if on else "disable", "--now", unit.name]
    if unit.suffix == ".plist":
        command = ["launchctl", "load" if on else "unload", "-w", str(unit)]
    try:
        subprocess.run(command, capture_output=True, check=True, text=True)
        output.line(f"done: {shlex.join(command)}")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "").strip().rpartition("\n")[2] or error
        output.note(f"the service is not {'enabled' if on else 'disabled'} ({reason}); run: {shlex.join(command)}")


def _advise(output: Output, host: agents.Host, settings: Settings) -> None:
    output.note("open sessions keep their old settings; start a new one")
    if name := next(filter(os.environ.get, KEY_VARIABLES), ""):
        output.note(f"{host.value} also needs {name} in its environment, or a key from `mnemolog admin keys store`")
    elif client_key(settings.url, os.environ) is None and _requires_key(settings.url):
        output.note(
            "the server requires a key: store one with `mnemolog admin keys create hooks --role read,write --store`, "
            "or with `mnemolog admin keys store`"
        )
    if host is agents.Host.CODEX:
        output.note("Codex only runs trusted hooks: run /hooks in it, and trust the ones from mnemolog")
