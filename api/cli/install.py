"""`mnemolog install` and `mnemolog uninstall`: our MCP server, rules and hooks in a coding agent's files."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import httpx
import typer
from msgspec.structs import replace
from rich.text import Text

from api.agents import recording
from api.agents.files import (
    Host,
    Scope,
    SettingsChange,
    Setup,
    System,
    UnusableSettings,
    apply,
    backup_of,
    installing,
    removing,
    rule_files,
    setups,
    together,
)
from api.agents.payloads import HOSTS
from api.cli.client import host_of
from api.cli.output import FAILED, USAGE, Output, answering, plain
from api.cli.rows import AsJson
from ingest.platform.addresses import client_key, proxy_options
from ingest.platform.settings import Settings, from_environment

USUAL_URL = "http://127.0.0.1:3111"
"""The default server of hooks and bridge."""
_NOTES = {
    (
        Host.CURSOR,
        Scope.USER,
    ): "no rules written: Cursor keeps user rules in its settings; use --scope project for a file",
    (
        Host.VSCODE,
        Scope.USER,
    ): "no rules written: VS Code keeps user rules in a profile; use --scope project for a file",
    (Host.WINDSURF, Scope.PROJECT): "Windsurf has no MCP servers per project: also install it without --scope",
}
"""Files that a host does not have."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}

ToWhom = Annotated[Host, typer.Argument(help="The coding agent.", show_default=False)]
ForWhom = Annotated[Scope, typer.Option(help="For all your work, or for the project in the working directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes without writing them.")]
Prompts = Annotated[
    bool | None,
    typer.Option(
        "--prompts/--no-prompts",
        help="Claude Code, Codex, Gemini CLI: recall on every prompt (default: off; keeps the current setting).",
        show_default=False,
    ),
]
NoRules = Annotated[bool, typer.Option("--no-rules", help="Do not add the rules on when to recall and remember.")]
ForServer = Annotated[
    str | None,
    typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to set up.", show_default="http://127.0.0.1:3111"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command(epilog="Example: mnemolog install claude-code")(install)
    app.command(epilog="Example: mnemolog uninstall claude-code --dry-run")(uninstall)


def install(
    host: ToWhom,
    scope: ForWhom = Scope.USER,
    prompts: Prompts = None,
    no_rules: NoRules = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: ForServer = None,
    as_json: AsJson = False,
) -> None:
    """Configure a coding agent to use mnemolog (MCP server, rules, hooks). Shows a diff, and asks before writing."""
    output = Output(as_json)
    with answering(output):
        settings = from_environment(os.environ)
        settings = replace(settings, url=url or settings.url)
        host_of(settings.url)
    if prompts is not None and (host not in HOSTS or recording.PROMPT_EVENT not in HOSTS[host].told):
        output.error(f"{host.value} has no prompt hooks that add text; omit --prompts and --no-prompts")
        raise typer.Exit(USAGE)
    files = setups(host, scope, _system(), _url(settings), prompts=prompts)
    if not no_rules:
        files += rule_files(host, scope, _system())
        if note := _NOTES.get((host, scope)):
            output.note(note)
    changed = _change(output, host, scope, together(files), installing, dry_run=dry_run, yes=yes)
    if changed:
        _advise(output, host, settings)


def uninstall(
    host: ToWhom, scope: ForWhom = Scope.USER, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove exactly what `mnemolog install` added to a coding agent's files."""
    output = Output(as_json)
    with answering(output):
        settings = from_environment(os.environ)
    files = setups(host, scope, _system(), _url(settings), prompts=False)
    files += rule_files(host, scope, _system())
    _change(output, host, scope, together(files), removing, dry_run=dry_run, yes=yes)


def _system() -> System:
    return System(Path.home(), Path.cwd(), os.environ)


def _url(settings: Settings) -> str:
    """The URL for entries; empty for the default server."""
    return "" if settings.url == USUAL_URL else settings.url


def _change(
    output: Output,
    host: Host,
    scope: Scope,
    files: list[Setup],
    plan: Callable[[Setup], SettingsChange],
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Plan, show, ask, write; true if files were written. Exits 1 if a file cannot be changed, 2 for wrong usage."""
    if not files:
        output.error(f"{host.value} has no project settings; omit --scope")
        raise typer.Exit(USAGE)
    changes, errors = _plan(files, plan)
    for change in changes:
        for line in change.diff():
            output.line(Text(plain(line), style=_STYLES.get(line[:1], "")))
    for error in errors:
        output.note(f"left unchanged: {error}")
    to_write = [change for change in changes if change.before != change.after]
    write = bool(to_write) and not dry_run and _confirm(output, yes)
    if write:
        errors += _write(output, to_write)
    output.document(
        {
            "host": host.value,
            "scope": scope.value,
            "written": write,
            "files": [{"path": str(change.path), "diff": "\n".join(change.diff())} for change in changes],
            "faults": errors,
        }
    )
    if not to_write and not errors:
        output.line(Text("nothing to change"))
    if errors:
        raise typer.Exit(FAILED)
    return write


def _plan(files: list[Setup], plan: Callable[[Setup], SettingsChange]) -> tuple[list[SettingsChange], list[str]]:
    changes: list[SettingsChange] = []
    errors: list[str] = []
    for setup in files:
        try:
            changes.append(plan(setup))
        except UnusableSettings as error:
            errors.append(str(error))
    return changes, errors


def _confirm(output: Output, yes: bool) -> bool:
    """Whether to write. Exits 2 without a terminal to ask at."""
    if yes:
        return True
    if output.as_json or not sys.stdin.isatty():
        output.error("not a terminal; pass --yes to apply, or --dry-run")
        raise typer.Exit(USAGE)
    return typer.confirm("Write this?", err=True)


def _write(output: Output, changes: list[SettingsChange]) -> list[str]:
    errors: list[str] = []
    for change in changes:
        try:
            apply(change)
        except UnusableSettings as error:
            errors.append(str(error))
            output.note(str(error))
            continue
        backup = f"; backup: {backup_of(change.path)}" if change.pristine else ""
        output.line(Text(f"{'deleted' if change.after is None else 'written'}: {change.path}{backup}"))
    return errors


def _advise(output: Output, host: Host, settings: Settings) -> None:
    output.note("open sessions keep their old settings; start a new one")
    if os.environ.get("MNEMOLOG_SECRET"):
        output.note(f"{host.value} also needs MNEMOLOG_SECRET in its environment, or a key from `mnemolog keys store`")
    elif client_key(settings.url, os.environ) is None and _requires_key(settings.url):
        output.note(
            "the server requires a key: store one with `mnemolog keys create hooks --role read,write --store`, or with "
            "`mnemolog keys store`"
        )
    if host is Host.CODEX:
        output.note("Codex only runs trusted hooks: run /hooks in it, and trust the ones from mnemolog")
    if host in HOSTS:
        try:
            recording.address(settings.url)
        except recording.Undeliverable as error:
            output.note(f"hooks will only spool: {error}")


def _requires_key(url: str) -> bool:
    try:
        return httpx.get(f"{url.rstrip('/')}/readyz", timeout=1, **proxy_options(url)).status_code == 401
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
