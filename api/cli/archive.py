"""`mnemolog archive`: what of the log is in its archive, whether it is whole, and archiving now.

It works on the log's server itself: the one of REDIS_URL, else the embedded one, which is started when it does not run.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from api.cli.commands import AsJson
from api.cli.direct import connected, server, telling
from api.cli.output import FAILED, Output, plain
from ingest.errors import InvalidSetting, NotFound
from ingest.log.archive.room import (
    ArchivedLog,
    ArchiveJob,
    ArchiveRun,
    DamagedArchive,
    MissingFile,
    PartitionArchive,
    look,
    open_log,
    verify,
)
from ingest.log.keys import MANIFEST
from ingest.platform.connections import Client
from ingest.platform.settings import Settings, from_environment

KIB = 1 << 10


class ArchiveAction(StrEnum):
    """What to do."""

    STATUS = "status"
    VERIFY = "verify"
    SEAL = "seal"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("archive", epilog="Example: mnemolog archive verify")(archive)


def archive(
    what: Annotated[
        ArchiveAction,
        typer.Argument(help="status: what it holds; verify: read all of it; seal: archive what is projected."),
    ] = ArchiveAction.STATUS,
    as_json: AsJson = False,
) -> None:
    """Show, verify or fill the log's archive. `verify` exits 1 and names every file that is damaged."""
    output = Output(as_json)
    with telling(output):
        settings = from_environment(os.environ)
        if not settings.archive:
            raise InvalidSetting("MNEMOLOG_ARCHIVE does not say where the archive is")
        with server(settings) as url:
            match what:
                case ArchiveAction.STATUS:
                    asyncio.run(_status(settings, url, output))
                case ArchiveAction.VERIFY:
                    faults = asyncio.run(_verify(settings, url, output))
                    if faults:
                        raise typer.Exit(FAILED)
                case ArchiveAction.SEAL:
                    _tell_sealed(output, asyncio.run(_seal(settings, url)))


async def _status(settings: Settings, url: str, output: Output) -> None:
    async with _opened(settings, url) as (redis, log):
        found = [await look(redis, log.archive, partition) for partition in range(log.partitions)]
        others = await log.archive.others()
    output.document({"archive": settings.archive, "partitions": found, "others": others})
    table = Table("partition", "segments", "entries", "KiB", "sealed up to", "trimmed up to", "in Redis")
    for one in found:
        table.add_row(*_row(one))
    output.show(table)
    for name in others:
        output.note(f"{plain(name)} in {settings.archive} is of another log, or of this one before it was restored")


async def _verify(settings: Settings, url: str, output: Output) -> list[DamagedArchive]:
    faults: list[DamagedArchive] = []
    async with _opened(settings, url) as (redis, log):
        with output.progress() as bar:
            task = bar.add_task("segments", total=await _segments(redis, log))
            for partition in range(log.partitions):
                faults += await verify(redis, log.archive, partition, lambda: bar.advance(task))
    output.document(
        {"damaged": [{"partition": one.partition, "name": one.name, "trouble": one.trouble} for one in faults]}
    )
    for one in faults:
        output.line(Text(plain(str(one)), style="red"))
    if not faults:
        output.line(Text("the archive is whole"))
    return faults


async def _segments(redis: Client, log: ArchivedLog) -> int:
    """How many there are, in the partitions whose manifest can be read."""
    count = 0
    for partition in range(log.partitions):
        try:
            count += (await look(redis, log.archive, partition)).segments
        except (DamagedArchive, MissingFile):
            continue
    return count


async def _seal(settings: Settings, url: str) -> ArchiveRun:
    async with _opened(settings, url) as (redis, log):
        return await ArchiveJob(redis, log, after=timedelta(seconds=settings.archive_after)).run(force=True)


def _tell_sealed(output: Output, done: ArchiveRun) -> None:
    output.document(done._asdict())
    summary = (
        f"{done.sealed:,} segments sealed, {done.trimmed:,} entries trimmed, {done.rewritten:,} segments rewritten"
    )
    output.line(Text(summary))


@asynccontextmanager
async def _opened(settings: Settings, url: str) -> AsyncGenerator[tuple[Client, ArchivedLog]]:
    async with connected(url) as redis:
        partitions = await redis.hget(MANIFEST, "partitions")
        if partitions is None:
            raise NotFound("there is no log on this server")
        log = await open_log(settings, redis, int(partitions))
        assert isinstance(log, ArchivedLog)
        yield redis, log


def _row(one: PartitionArchive) -> tuple[Any, ...]:
    size = f"{-(-one.bytes // KIB):,}"
    return (
        str(one.partition),
        f"{one.segments:,}",
        f"{one.entries:,}",
        size,
        one.sealed,
        one.trimmed,
        f"{one.waiting:,}",
    )
