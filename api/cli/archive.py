"""`mnemolog archive`: the log's archive. `mnemolog log-file`: the embedded server's append-only file.

`archive` works on Redis itself, at REDIS_URL or embedded, and starts an embedded server that is not running.
`log-file` only reads files, while it holds the lock of the data folder, so that no server uses them.
"""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from api.cli.direct import on_redis, server
from api.cli.output import FAILED, Output
from ingest.embedded import room as embedded
from ingest.errors import InvalidSetting, NotFound
from ingest.log.archive.room import ArchivedLog, ArchiveJob, DamagedArchive, MissingFile, look, open_log, verify
from ingest.log.keys import MANIFEST
from ingest.platform.connections import Client, connected
from ingest.platform.settings import Settings, from_environment

KIB = 1 << 10


class ArchiveAction(StrEnum):
    """What to do."""

    STATUS = "status"
    VERIFY = "verify"
    SEAL = "seal"


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("archive", epilog="Example: mnemolog archive verify")(archive)
    app.command("log-file", epilog="Example: mnemolog log-file check")(log_file)


@on_redis
def archive(
    output: Output,
    what: Annotated[
        ArchiveAction,
        typer.Argument(help="status: its contents; verify: read all of it; seal: archive all projected entries."),
    ] = ArchiveAction.STATUS,
) -> None:
    """Show, verify or fill the log's archive. `verify` exits 1 and names every damaged file."""
    settings = from_environment(os.environ)
    if not settings.archive:
        raise InvalidSetting("MNEMOLOG_ARCHIVE is not set")
    act = {ArchiveAction.STATUS: _status, ArchiveAction.VERIFY: _verify, ArchiveAction.SEAL: _seal}[what]

    async def run(url: str) -> None:
        async with connected(url) as redis:
            partitions = await redis.hget(MANIFEST, "partitions")
            if partitions is None:
                raise NotFound("there is no log on this server")
            log = await open_log(settings, redis, int(partitions))
            assert isinstance(log, ArchivedLog)
            await act(settings, redis, log, output)

    with server(settings) as url:
        asyncio.run(run(url))


async def _status(settings: Settings, redis: Client, log: ArchivedLog, output: Output) -> None:
    partitions = [await look(redis, log.archive, partition) for partition in range(log.partitions)]
    others = await log.archive.others()
    output.document({"archive": settings.archive, "partitions": partitions, "others": others})
    table = Table("partition", "segments", "entries", "KiB", "sealed up to", "trimmed up to", "in Redis")
    for part in partitions:
        counts = (f"{part.segments:,}", f"{part.entries:,}", f"{-(-part.bytes // KIB):,}")
        table.add_row(str(part.partition), *counts, part.sealed, part.trimmed, f"{part.waiting:,}")
    output.show(table)
    for name in others:
        output.note(f"{name} in {settings.archive} belongs to another log, or to this one before a restore")


async def _verify(settings: Settings, redis: Client, log: ArchivedLog, output: Output) -> None:
    damaged: list[DamagedArchive] = []
    segments = 0
    for partition in range(log.partitions):
        with suppress(DamagedArchive, MissingFile):
            segments += (await look(redis, log.archive, partition)).segments
    with output.progress() as bar:
        task = bar.add_task("segments", total=segments)
        for partition in range(log.partitions):
            damaged += await verify(redis, log.archive, partition, lambda: bar.advance(task))
    fields = [{"partition": part.partition, "name": part.name, "trouble": part.trouble} for part in damaged]
    output.document({"damaged": fields})
    for part in damaged:
        output.line(Text(str(part), style="red"))
    if damaged:
        raise typer.Exit(FAILED)
    output.line(Text("the archive is intact"))


async def _seal(settings: Settings, redis: Client, log: ArchivedLog, output: Output) -> None:
    run = await ArchiveJob(redis, log, after=timedelta(seconds=settings.archive_after)).run(force=True)
    output.document(run._asdict())
    counts = f"{run.sealed:,} segments sealed, {run.trimmed:,} entries trimmed, {run.rewritten:,} segments rewritten"
    output.line(Text(counts))


LISTED = 100
"""Faults and partitions shown without `--json`, which shows all of them."""


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
                raise typer.Exit(FAILED)
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
        output.line(Text(line))
    if damage is not None or log.faults:
        output.note(embedded.WAY_OUT)
        raise typer.Exit(FAILED)


def _repair(folder: Path, output: Output, *, yes: bool) -> None:
    with _lock(folder, "repair"):
        unreadable = embedded.find_fault(folder)
        if unreadable is None:
            output.document({"damage": None})
            output.line(Text("the file is intact"))
            return
        if not embedded.is_newest(unreadable):
            output.error(f"{unreadable}; it is not the newest file: replace it with a copy, or restore a backup")
            raise typer.Exit(FAILED)
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
        output.line(Text("no damage"))
    else:
        state = "open" if damage.open else "nothing acknowledged is lost"
        output.line(Text(f"{damage.at:%Y-%m-%d %H:%M:%S} UTC ({state}): {damage.described(LISTED)}"))
        if damage.cut_bytes:
            output.note(f"what was cut off is in {folder / embedded.SET_ASIDE}")
    return damage


@contextmanager
def _lock(folder: Path, doing: str) -> Generator[None]:
    """The folder, locked so that no server can use it. Raises InUse."""
    valkey = embedded.EmbeddedValkey(folder, f"mnemolog log-file {doing}")
    valkey.lock()
    try:
        yield
    finally:
        valkey.stop()
