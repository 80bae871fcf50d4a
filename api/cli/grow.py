"""`mnemolog grow`: copies a log into one with more partitions, from its server or folder to the one of the settings."""

import asyncio
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from api.cli.backup import ReplayDiffers
from api.cli.direct import connected, on_redis, server
from api.cli.output import USAGE, Output, plain
from ingest.errors import InvalidSetting
from ingest.log.archive.room import open_log
from ingest.log.keys import MANIFEST
from ingest.platform.settings import Settings, from_environment
from projections.maintenance.room import Counts, Growing, GrowRefused, Window, take_back
from projections.maintenance.room import GrowProgress as Tell


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    example = "Example: MNEMOLOG_PARTITIONS=64 REDIS_URL=redis://new mnemolog grow --from redis://old"
    app.command("grow", epilog=example)(grow)


@on_redis
def grow(
    output: Output,
    source: Annotated[
        str, typer.Option("--from", help="The log to grow: its Redis URL, or its MNEMOLOG_DATA_DIR.")
    ] = "",
    documents: Annotated[
        bool, typer.Option(help="Replay the new log, and compare the result with the old documents.")
    ] = True,
    back: Annotated[bool, typer.Option("--back", help="Allow processes to start on the old log again.")] = False,
) -> None:
    """Copy a log into an empty one with more partitions, keeping all positions; no API or worker can use either.

    The settings are those of the new log. Run an interrupted command again to resume it. Exits 1 if the logs differ or
    are in use, or if the new one is not empty.
    """
    if back == bool(source):
        output.error("use --from OLD with the settings of the new log, or --back with those of the old one")
        raise typer.Exit(USAGE)
    settings = from_environment(os.environ)
    if back:

        async def allow_again(url: str) -> bool:
            async with connected(url) as redis:
                return await take_back(redis)

        with server(settings) as url:
            moved = asyncio.run(allow_again(url))
        output.document({"taken_back": moved})
        output.line(Text("processes can start on this log again" if moved else "this log was not grown"))
        return
    if "://" in source:
        old = replace(settings, redis_url=source)
    else:
        folder = Path(source).expanduser().absolute()
        if not (folder / "valkey").is_dir():
            raise InvalidSetting(f"{source} is neither a Redis URL nor a data folder of an embedded server")
        old = replace(settings, redis_url=None, data_dir=folder)
    with ExitStack() as stack:
        urls = stack.enter_context(server(old)), stack.enter_context(server(settings))
        bar = stack.enter_context(output.progress())
        copied, counts = asyncio.run(_grow(old, settings, urls, _progress_in(bar), documents=documents))
    _report(output, settings, copied, counts, documents)


async def _grow(
    old: Settings, new: Settings, urls: tuple[str, str], tell: Tell, *, documents: bool
) -> tuple[int, Counts]:
    """The number of copied entries, and all entries by tenant and type."""
    async with connected(urls[0]) as source, connected(urls[1]) as target:
        partitions = await source.hget(MANIFEST, "partitions")
        if partitions is None:
            raise GrowRefused("there is no log on the server of --from")
        log = await open_log(old, source, int(partitions))
        growing = Growing(source, log, target, new.partitions, tell, window=Window.of(new))
        await growing.begin(projected=documents)
        copied = await growing.copy()
        counts = await growing.compare()
        await growing.copy_keys()
        if documents and (different := await growing.compare_documents()):
            raise ReplayDiffers(
                f"{'; '.join(map(str, different))}. All entries were copied; rebuilding the old log would differ too: "
                "rebuild it first, or use --no-documents"
            )
        await growing.finish()
        # of an earlier log with fewer partitions: no replica could load them
        if await asyncio.to_thread(new.snapshots.exists):
            await asyncio.to_thread(shutil.rmtree, new.snapshots)
    return copied, counts


def _progress_in(bar: Progress) -> Tell:
    tasks: dict[str, Any] = {}

    def tell(what: str, done: int, of: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=of)
        bar.update(tasks[what], completed=done, total=of)

    return tell


def _report(output: Output, settings: Settings, copied: int, counts: Counts, documents: bool) -> None:
    by_tenant: dict[str, dict[str, int]] = {}
    table = Table("tenant", "event", "count")
    for (tenant, kind), count in sorted(counts.items()):
        by_tenant.setdefault(tenant, {})[kind] = count
        table.add_row(plain(tenant), plain(kind), f"{count:,}")
    totals = {"partitions": settings.partitions, "events": counts.total(), "copied": copied}
    output.document({**totals, "documents_compared": documents, "tenants": by_tenant})
    output.show(table)
    same = ", and so are the documents" if documents else ""
    output.line(Text(f"{counts.total():,} events are in {settings.partitions} partitions, all identical{same}"))
    output.note(
        "Start API and workers with these settings. The old log is unchanged, and locked; to go back, run "
        "`mnemolog grow --back` with its settings. New writes are only in the new log"
    )
