"""`mnemolog install` and `mnemolog uninstall`: our hooks and MCP server in the settings of a coding agent, and out."""

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
from api.cli.commands import AsJson
from api.cli.output import FAILED, USAGE, Output, answering, plain
from ingest.platform.addresses import client_key, proxy_options
from ingest.platform.settings import Settings, from_environment

USUAL_URL = "http://127.0.0.1:3111"
"""Hooks and bridge go there when nothing names another."""
_NOTES = {
    (
        Host.CURSOR,
        Scope.USER,
    ): "rules are not written: Cursor keeps a user's in its settings; with --scope project they are a file",
    (
        Host.VSCODE,
        Scope.USER,
    ): "rules are not written: VS Code keeps a user's in a profile; with --scope project they are a file",
    (Host.WINDSURF, Scope.PROJECT): "Windsurf has MCP servers for all projects alone: install it without --scope, too",
}
"""What a host has no file for."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}

ToWhom = Annotated[Host, typer.Argument(help="The coding agent.", show_default=False)]
ForWhom = Annotated[Scope, typer.Option(help="All of your work, or the project in the working directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Prompts = Annotated[
    bool | None,
    typer.Option(
        "--prompts/--no-prompts",
        help="Claude Code, Codex, Gemini CLI: tell what memory has about each prompt. Left out: as it is, at first no.",
        show_default=False,
    ),
]
NoRules = Annotated[bool, typer.Option("--no-rules", help="Leave out the text on when to recall and remember.")]
ForServer = Annotated[
    str | None,
    typer.Option("--url", envvar="MNEMOLOG_URL", help="Server to set up.", show_default="http://127.0.0.1:3111"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


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
    """Put our MCP server, rules, and hooks where it has them, into a coding agent's files; shows a diff, and asks."""
    output = Output(as_json)
    with answering(output):
        settings = from_environment(os.environ)
        settings = replace(settings, url=url or settings.url)
        host_of(settings.url)
    if prompts is not None and (host not in HOSTS or recording.PROMPT_EVENT not in HOSTS[host].told):
        output.error(f"{host.value} takes no text from a hook at a prompt; leave --prompts and --no-prompts out")
        raise typer.Exit(USAGE)
    found = setups(host, scope, _system(), _url(settings), prompts=prompts)
    if not no_rules:
        found += rule_files(host, scope, _system())
        if note := _NOTES.get((host, scope)):
            output.note(note)
    changed = _change(output, host, scope, together(found), installing, dry_run=dry_run, yes=yes)
    if changed:
        _advise(output, host, settings)


def uninstall(
    host: ToWhom, scope: ForWhom = Scope.USER, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Take out of a coding agent's files what `mnemolog install` put there, and nothing else."""
    output = Output(as_json)
    with answering(output):
        settings = from_environment(os.environ)
    found = setups(host, scope, _system(), _url(settings), prompts=False)
    found += rule_files(host, scope, _system())
    _change(output, host, scope, together(found), removing, dry_run=dry_run, yes=yes)


def _system() -> System:
    return System(Path.home(), Path.cwd(), os.environ)


def _url(settings: Settings) -> str:
    """What entries name; nothing for the usual server."""
    return "" if settings.url == USUAL_URL else settings.url


def _change(
    output: Output,
    host: Host,
    scope: Scope,
    found: list[Setup],
    plan: Callable[[Setup], SettingsChange],
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Plan, show, ask, write; true when files were written. Exits with 1 when a file cannot be changed, 2 for usage."""
    if not found:
        output.error(f"{host.value} has no settings of a project; leave --scope out")
        raise typer.Exit(USAGE)
    changes, faults = _planned(found, plan)
    for change in changes:
        _show(output, change)
    for fault in faults:
        output.note(f"left as it is: {fault}")
    to_write = [change for change in changes if change.before != change.after]
    write = bool(to_write) and not dry_run and _agreed(output, yes)
    if write:
        faults += _written(output, to_write)
    output.document(
        {
            "host": host.value,
            "scope": scope.value,
            "written": write,
            "files": [{"path": str(one.path), "diff": "\n".join(one.diff())} for one in changes],
            "faults": faults,
        }
    )
    if not to_write and not faults:
        output.line(Text("nothing to change"))
    if faults:
        raise typer.Exit(FAILED)
    return write


def _planned(found: list[Setup], plan: Callable[[Setup], SettingsChange]) -> tuple[list[SettingsChange], list[str]]:
    """The change of every file that can be changed, and why the others cannot: one does not hold up another."""
    changes: list[SettingsChange] = []
    faults: list[str] = []
    for setup in found:
        try:
            changes.append(plan(setup))
        except UnusableSettings as error:
            faults.append(str(error))
    return changes, faults


def _show(output: Output, change: SettingsChange) -> None:
    for line in change.diff():
        output.line(Text(plain(line), style=_STYLES.get(line[:1], "")))


def _agreed(output: Output, yes: bool) -> bool:
    """Whether to write. Exits with 2 where there is no terminal to ask at."""
    if yes:
        return True
    if output.as_json or not sys.stdin.isatty():
        output.error("not a terminal; pass --yes to apply, or --dry-run")
        raise typer.Exit(USAGE)
    return typer.confirm("Write this?", err=True)


def _written(output: Output, changes: list[SettingsChange]) -> list[str]:
    faults: list[str] = []
    for change in changes:
        try:
            apply(change)
        except UnusableSettings as error:
            faults.append(str(error))
            output.note(str(error))
            continue
        kept = f"; as it was: {backup_of(change.path)}" if change.pristine else ""
        output.line(Text(f"{'deleted' if change.after is None else 'written'}: {change.path}{kept}"))
    return faults


def _advise(output: Output, host: Host, settings: Settings) -> None:
    output.note("sessions that are open keep their old settings; start a new one")
    if os.environ.get("MNEMOLOG_SECRET"):
        output.note(
            f"{host.value} needs MNEMOLOG_SECRET in its environment, too, or a key that `mnemolog keys store` stored"
        )
    elif client_key(settings.url, os.environ) is None and _asks_for_a_key(settings.url):
        output.note(
            "the server asks for a key: store one with `mnemolog keys create hooks --role read,write --store`, or with "
            "`mnemolog keys store`"
        )
    if host is Host.CODEX:
        output.note("Codex runs hooks that its user trusts: type /hooks in it, and trust ours")
    if host in HOSTS:
        try:
            recording.address(settings.url)
        except recording.Undeliverable as error:
            output.note(f"hooks will only spool: {error}")


def _asks_for_a_key(url: str) -> bool:
    """Whether a server answers there, and not to who sends no key."""
    try:
        return httpx.get(f"{url.rstrip('/')}/readyz", timeout=1, **proxy_options(url)).status_code == 401
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
