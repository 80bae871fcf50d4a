"""`mnemolog admin log-file`: the embedded server's append-only file.

Only reads files, while it holds the lock of the data folder, so that no server uses them.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api.cli.direct import on_redis
from api.cli.output import Failed, Output
from api.cli.rows import add
from ingest.embedded import room as embedded
from ingest.errors import InvalidSetting
from ingest.platform.settings import from_environment

LISTED = 100
"""Faults and partitions shown without `--json`, which shows all of them."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add(app, log_file, "log-file check", "log-file")


class LogFileAction(StrEnum):
    """What to do."""

    STATUS = "status"
    ACKNOWLEDGE = "acknowledge"
    CHECK = "check"
    REPAIR = "repair"


@on_redis
def log_file(
    output: Output,
    what: Annotated[
        LogFileAction,
        typer.Argument(
            help="status: damage found at startup; acknowledge: mark it as seen; check: read the whole file; "
            "repair: truncate it where it becomes unreadable."
        ),
    ] = LogFileAction.STATUS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before a repair.")] = False,
) -> None:
    """Show, check or repair the embedded server's append-only file. `status` and `check` exit 1 on a problem."""
    settings = from_environment(os.environ)
    if settings.redis_url is not None:
        raise InvalidSetting("the log is on the server at REDIS_URL, not in a local file")
    folder = settings.data_dir / "valkey"
    match what:
        case LogFileAction.STATUS:
            damage = _show_damage(folder, output)
            if damage is not None and damage.open:
                raise Failed
        case LogFileAction.ACKNOWLEDGE:
            _show_damage(folder, output)
            embedded.forget_damage(folder)
        case LogFileAction.CHECK:
            _check(folder, output)
        case LogFileAction.REPAIR:
            _repair(folder, output, yes=yes)


def _check(folder: Path, output: Output) -> None:
    with _lock(folder, "check"):
        damage, log = embedded.find_fault(folder), embedded.LogCheck(folder)
    counts = {"entries": log.entries, "unchecked": log.unchecked, "faults": log.faults}
    output.document({"fault": None if damage is None else damage._asdict(), "log": counts})
    counts_text = f"{log.entries:,} entries, {log.unchecked:,} of them without a checksum; {len(log.faults):,} faults"
    for line in ("the file is intact" if damage is None else str(damage), counts_text, *log.faults[:LISTED]):
        output.line(line)
    if damage is not None or log.faults:
        output.note(embedded.WAY_OUT)
        raise Failed


def _repair(folder: Path, output: Output, *, yes: bool) -> None:
    with _lock(folder, "repair"):
        unreadable = embedded.find_fault(folder)
        if unreadable is None:
            output.document({"damage": None})
            output.line("the file is intact")
            return
        if not embedded.is_newest(unreadable):
            output.error(f"{unreadable}; it is not the newest file: replace it with a copy, or restore a backup")
            raise Failed
        if not (yes or output.as_json):
            typer.confirm(
                f"{unreadable}. Drop the {unreadable.size - unreadable.at:,} bytes after that?", abort=True, err=True
            )
        embedded.cut_off(unreadable, folder)
    _show_damage(folder, output)


def _show_damage(folder: Path, output: Output) -> embedded.Damage | None:
    damage = embedded.load_damage(folder)
    output.document({"damage": damage})
    if damage is None:
        output.line("no damage")
    else:
        state = "open" if damage.open else "nothing acknowledged is lost"
        output.line(f"{damage.at:%Y-%m-%d %H:%M:%S} UTC ({state}): {damage.described(LISTED)}")
        if damage.cut_bytes:
            output.note(f"what was cut off is in {folder / embedded.SET_ASIDE}")
    return damage


@contextmanager
def _lock(folder: Path, doing: str) -> Generator[None]:
    """The folder, locked so that no server can use it. Raises InUse."""
    valkey = embedded.EmbeddedValkey(folder, f"mnemolog admin log-file {doing}")
    valkey.lock()
    try:
        yield
    finally:
        valkey.stop()
