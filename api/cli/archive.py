"""`mnemolog admin archive`: the log's archive.

Works on Redis itself, at REDIS_URL or embedded, and starts an embedded server that is not running.
"""

import asyncio
import os
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from api.cli.direct import on_redis, server
from api.cli.output import Failed, Output
from api.cli.rows import add
from ingest.errors import InvalidSetting, NotFound
from ingest.log.archive.room import ArchivedLog, ArchiveJob, look, verify
from ingest.log.keys import MANIFEST
from ingest.log.opening import open_log
from ingest.log.segments import DamagedArchive, MissingFile
from ingest.platform.connections import Client, connected
from ingest.platform.settings import Settings, from_environment

KIB = 1 << 10


class ArchiveAction(StrEnum):
    """What to do."""

    STATUS = "status"
    VERIFY = "verify"
    SEAL = "seal"


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add(app, archive, "archive verify")


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
        output.line(str(part), style="red")
    if damaged:
        raise Failed
    output.line("the archive is intact")


async def _seal(settings: Settings, redis: Client, log: ArchivedLog, output: Output) -> None:
    run = await ArchiveJob(redis, log, after=timedelta(seconds=settings.archive_after)).run(force=True)
    output.document(run._asdict())
    counts = f"{run.sealed:,} segments sealed, {run.trimmed:,} entries trimmed, {run.rewritten:,} segments rewritten"
    output.line(counts)
