"""`mnemolog log-file`: the embedded server's append-only file: what became of it, whether it is whole, cutting it off.

It reads files, and asks no server. What is checked or cut off is not in use meanwhile: the data folder is locked.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from api.cli.commands import AsJson
from api.cli.direct import telling
from api.cli.output import FAILED, Output, plain
from ingest.embedded.room import (
    WAY_OUT,
    EmbeddedValkey,
    Incident,
    LogCheck,
    cut_off,
    find_fault,
    is_newest,
    load_incidents,
    record_incident,
    take_note,
)
from ingest.errors import InvalidSetting
from ingest.platform.settings import from_environment

LISTED = 100
"""Faults that are shown to people; `--json` has all."""


class LogFileAction(StrEnum):
    """What to do."""

    STATUS = "status"
    ACKNOWLEDGE = "acknowledge"
    CHECK = "check"
    REPAIR = "repair"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("log-file", epilog="Example: mnemolog log-file check")(log_file)


def log_file(
    what: Annotated[
        LogFileAction,
        typer.Argument(
            help="status: what starts found wrong; acknowledge: take note of it; check: read all of it; "
            "repair: cut it off where it cannot be read."
        ),
    ] = LogFileAction.STATUS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a repair.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show, check or repair the embedded server's file. `status` and `check` exit 1 when something is wrong."""
    output = Output(as_json)
    with telling(output):
        folder = _folder()
        match what:
            case LogFileAction.STATUS:
                found = load_incidents(folder)
                _tell(output, found)
                if any(one.open for one in found):
                    raise typer.Exit(FAILED)
            case LogFileAction.ACKNOWLEDGE:
                _tell(output, take_note(folder))
            case LogFileAction.CHECK:
                _check(folder, output)
            case LogFileAction.REPAIR:
                _repair(folder, output, yes=yes)


def _check(folder: Path, output: Output) -> None:
    with _unused(folder, "check"):
        fault, log = find_fault(folder), LogCheck(folder)
    counts = {"entries": log.entries, "unchecked": log.unchecked, "faults": log.faults}
    output.document({"fault": None if fault is None else fault._asdict(), "log": counts})
    told = f"{log.entries:,} entries, {log.unchecked:,} of them without a checksum; {len(log.faults):,} faults"
    for line in ("the file is whole" if fault is None else str(fault), told, *log.faults[:LISTED]):
        output.line(Text(plain(line)))
    if fault is not None or log.faults:
        output.note(WAY_OUT)
        raise typer.Exit(FAILED)


def _repair(folder: Path, output: Output, *, yes: bool) -> None:
    with _unused(folder, "repair"):
        fault = find_fault(folder)
        if fault is None:
            output.document({"incident": None})
            output.line(Text("the file is whole"))
            return
        if not is_newest(fault):
            output.error(f"{fault}, and it is not the newest file: put it back from a copy, or restore a backup")
            raise typer.Exit(FAILED)
        if not (yes or output.as_json):
            typer.confirm(f"{fault}. Go on without the {fault.size - fault.at:,} bytes behind?", abort=True, err=True)
        incident = cut_off(fault, folder)
        record_incident(folder, incident)
    output.document({"incident": incident})
    output.line(Text(plain(incident.whole())))


def _tell(output: Output, found: list[Incident]) -> None:
    output.document({"incidents": found})
    for one in found:
        state = "open" if one.open else "nothing acknowledged is lost"
        output.line(Text(f"{one.at:%Y-%m-%d %H:%M:%S} UTC ({state}): {plain(one.whole())}"))
    if not found:
        output.line(Text("nothing was found wrong"))


def _folder() -> Path:
    settings = from_environment(os.environ)
    if settings.redis_url is not None:
        raise InvalidSetting("the log is on the server that REDIS_URL names: its file is looked after there")
    return settings.data_dir / "valkey"


@contextmanager
def _unused(folder: Path, doing: str) -> Generator[None]:
    """The folder, while no server runs on it and none can be started. Raises InUse."""
    valkey = EmbeddedValkey(folder, f"mnemolog log-file {doing}")
    valkey.lock()
    try:
        yield
    finally:
        valkey.stop()
