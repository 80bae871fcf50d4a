"""`mnemolog admin backup`, `restore` and `backups`, and the restore when `up` starts.

They work on Redis itself, at REDIS_URL or embedded, and start an embedded server that is not running.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from redis.exceptions import RedisError
from rich.table import Table

from api.cli.direct import on_redis, server
from api.cli.output import Failed, Output
from api.cli.rows import add
from ingest.errors import InvalidSetting, LogUnavailable, MnemologError
from ingest.log.keys import MANIFEST, PartitionKeys
from ingest.log.lag import wait_projected
from ingest.log.opening import open_log
from ingest.log.position import Token
from ingest.platform.connections import connected
from ingest.platform.settings import Settings, from_environment
from projections.index.waiting import work_folder
from projections.maintenance import room as maintenance
from projections.store.dead_letters import discarded_places

logger = logging.getLogger(__name__)

KIB = 1 << 10
PROJECTED_WITHIN_S = 30.0
"""`verify --live` waits this long for the projections before it compares."""

_WHERE = "A directory, or hf://datasets/OWNER/REPO (with HF_TOKEN)."
To = Annotated[str, typer.Option(show_default="MNEMOLOG_BACKUP", help=_WHERE)]
At = Annotated[
    str, typer.Option(help="Only up to a position (as a write returns it) or a time (2026-01-31T12:00:00Z).")
]
From = Annotated[str, typer.Option("--from", show_default="MNEMOLOG_BACKUP", help=_WHERE)]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, backup, "backup --to /srv/backups")
    add(app, restore_, "restore --from /srv/backups", "restore")
    several = typer.Typer(invoke_without_command=True)
    several.callback(epilog="Example: mnemolog admin backups --from /srv/backups")(backups)
    add(several, verify_, "backups verify --live", "verify")
    app.add_typer(several, name="backups")


@on_redis
def backup(output: Output, to: To = "") -> None:
    """Back up the log now if it changed since the newest backup; works while it is in use."""
    settings, target = _settings_and_target(to)
    with server(settings) as url:
        manifest = asyncio.run(_back_up(settings, url, target))
    output.document({"backup": manifest, "target": str(target)})
    output.line(_description(manifest) if manifest else f"{target} is up to date")


@on_redis
def restore_(
    output: Output,
    source: From = "",
    name: Annotated[str | None, typer.Option("--backup", help="Name of the backup; default: the newest.")] = None,
    at: At = "",
    verified: Annotated[bool, typer.Option("--verify", help="Also replay and compare the log and the backup.")] = False,
) -> None:
    """Restore a backup into an empty log that no worker or API uses. Exits 1 if it is damaged, or the log not empty."""
    settings, target = _settings_and_target(source)
    with server(settings) as url, output.progress() as bar:
        task = bar.add_task("records", total=None)
        restored = asyncio.run(
            _restore(settings, url, target, name, lambda done, of: bar.update(task, completed=done, total=of), at)
        )
        if restored is not None and verified:
            asyncio.run(_compare(settings, url, target, restored[0].name, at, live=False))
    if restored is None:
        raise maintenance.BackupFailed(f"there is no backup in {target}")
    manifest, left_out = restored
    output.document({"backup": manifest, "target": str(target), "left_out": left_out, "verified": verified})
    replayed = ", verified by replaying both" if verified else ""
    output.line(f"restored {_description(manifest)}{replayed}")
    if at:
        output.line(f"up to {at}: {left_out:,} later events were left out")


@on_redis
def backups(output: Output, source: From = "") -> None:
    """List the backups, oldest first. Exits 1 if the list is empty."""
    settings, target = _settings_and_target(source)
    with _working(settings) as work:
        available = maintenance.listed(target, work)
    fields = [{"name": entry.name, "trouble": entry.trouble, "manifest": entry.manifest} for entry in available]
    output.document({"backups": fields})
    table = Table("backup", "made", "events", "KiB", "trouble")
    for entry in available:
        row = ("", "", "")
        if (manifest := entry.manifest) is not None:
            row = (f"{manifest.created_at:%Y-%m-%d %H:%M:%S}", f"{manifest.events:,}", _kib(manifest))
        table.add_row(entry.name, *row, entry.trouble)
    output.show(table)
    if not available:
        raise Failed


@on_redis
def verify_(
    output: Output,
    name: Annotated[str, typer.Argument(help="Name of the backup; default: the newest.")] = "",
    source: From = "",
    at: At = "",
    live: Annotated[bool, typer.Option("--live", help="Compare with the documents of the live log.")] = False,
) -> None:
    """Read and replay a backup, and summarize its documents. Exits 1 if it is damaged or differs from the live log."""
    settings, target = _settings_and_target(source)
    if live:
        with server(settings) as url:
            verified = asyncio.run(_compare(settings, url, target, name, at, live=True))
    else:
        verified = asyncio.run(_verify(settings, target, name, at))
    summary = verified.documents.summary
    parked = {partition: [str(position) for position in positions] for partition, positions in verified.parked.items()}
    output.document({"backup": verified.manifest.name, "documents": summary, "parked": parked, "equals_live": live})
    table = Table("partition", "documents", "listing members", "documents SHA-256", "listings SHA-256")
    for partition, counts in summary.items():
        count = sum(counts.documents.values())
        digests = counts.documents_sha256[:16], counts.listings_sha256[:16]
        table.add_row(str(partition), f"{count:,}", f"{counts.members:,}", *digests)
    output.show(table)
    same = "; the live documents are identical" if live else ""
    output.line(f"{_description(verified.manifest)}: all records were read and replayed{same}")


def restore_at_start(settings: Settings, on_wait: Callable[[str], None]) -> bool:
    """Restore the newest backup into an empty log, if backups are configured and MNEMOLOG_RESTORE allows it.

    Returns whether one was restored. Raises if the backups cannot be listed, or if the newest one is damaged: starting
    empty despite good backups would look like data loss.

    Runs an event loop, so it cannot be called from one.
    """
    if not settings.backup_target or settings.restore == "never" or settings.redis_url is None:
        return False
    on_wait("looking for a backup to restore")
    target = maintenance.target_of(settings.backup_target, settings.hf_token or "")

    async def restore_if_empty(url: str) -> tuple[maintenance.BackupManifest, int] | None:
        async with connected(url) as redis:
            if not await maintenance.is_empty(redis, settings.partitions):
                return None
        progress: maintenance.Progress = lambda done, of: on_wait(f"restoring: {done:,} of {of:,} records")  # noqa: E731
        return await _restore(settings, url, target, None, progress)

    try:
        restored = asyncio.run(restore_if_empty(settings.redis_url))
    except RedisError as error:
        raise LogUnavailable(f"Redis does not answer: {error}") from error
    if restored is None:
        return False
    logger.info("the log was empty: restored %s from %s", _description(restored[0]), target)
    return True


async def _back_up(settings: Settings, url: str, target: maintenance.Target) -> maintenance.BackupManifest | None:
    async with connected(url) as redis:
        partitions = await redis.hget(MANIFEST, "partitions")
        if partitions is None:
            raise maintenance.BackupFailed("there is no log to back up on this server")
        with _working(settings) as work:
            every = timedelta(seconds=settings.backup_every)
            log = await open_log(settings, redis, int(partitions))
            job = maintenance.BackupJob(redis, log, target, work, every=every, keep=settings.backup_keep)
            return await job.run(force=True)


class ReplayDiffers(MnemologError):
    """Documents differ from the replay of a backup."""

    code = "replay_differs"


async def _verify(settings: Settings, target: maintenance.Target, name: str, at: str) -> maintenance.Verified:
    """Replay the named backup, or the newest; writes nothing."""
    with _working(settings) as work:
        available = await asyncio.to_thread(maintenance.listed, target, work)
        matching = [entry for entry in available if name in ("", entry.name)]
        if not matching:
            raise maintenance.no_such_backup(name, target)
        entry = matching[-1]
        if entry.manifest is None:
            raise maintenance.DamagedBackup(entry.name, entry.trouble)
        return await maintenance.verify(target, entry, work, maintenance.point_of(at, entry.manifest) if at else None)


async def _compare(
    settings: Settings, url: str, target: maintenance.Target, name: str, at: str, *, live: bool
) -> maintenance.Verified:
    """Replay a backup, and compare that with a server's documents, or with a replay of its log.

    Raises ReplayDiffers, which names the first documents that differ; ProjectionBehind if the server's log is not
    projected within PROJECTED_WITHIN_S.
    """
    verified = await _verify(settings, target, name, at)
    async with connected(url) as redis:
        partitions = range(verified.manifest.partitions)
        log = await open_log(settings, redis, len(partitions))
        if live:
            # documents that are only late would look like documents that differ
            heads = Token({partition: await log.head(partition) for partition in partitions})
            await wait_projected(redis, heads, PROJECTED_WITHIN_S)
            documents = await maintenance.manifest_of(redis, partitions)
        else:
            discarded = {partition: await discarded_places(redis, PartitionKeys(partition)) for partition in partitions}
            documents = await maintenance.replay_manifest(log, partitions, discarded)
    if different := maintenance.manifest_differences(verified.documents, documents):
        hint = "; documents from an earlier release lack newer fields: run `mnemolog admin rebuild`, then verify again"
        raise ReplayDiffers("; ".join(map(str, different)) + (hint if live else ""))
    return verified


async def _restore(
    settings: Settings,
    url: str,
    target: maintenance.Target,
    name: str | None,
    progress: maintenance.Progress,
    at: str = "",
) -> tuple[maintenance.BackupManifest, int] | None:
    """The restored backup, and how many of its events were left out; None if there is no backup."""
    with _working(settings) as work:
        chosen = await asyncio.to_thread(maintenance.choose, target, name, work)
        if chosen is None:
            return None
        async with connected(url) as redis:
            point = maintenance.point_of(at, chosen.manifest) if at else None
            await maintenance.refuse_if_used(redis, settings.partitions)
            # of an earlier log: a replica would start from them
            await asyncio.to_thread(shutil.rmtree, settings.snapshots, ignore_errors=True)
            left_out = await maintenance.restore(
                redis, settings.partitions, chosen, progress, point, maintenance.Window.of(settings)
            )
        return chosen.manifest, left_out


def _settings_and_target(named: str) -> tuple[Settings, maintenance.Target]:
    settings = from_environment(os.environ)
    location = named or settings.backup_target
    if not location:
        raise InvalidSetting("MNEMOLOG_BACKUP is not set; name the backup location with --from or --to")
    return settings, maintenance.target_of(location, settings.hf_token or "")


def _description(manifest: maintenance.BackupManifest) -> str:
    return f"backup {manifest.name}: {manifest.events:,} events, {_kib(manifest)} KiB"


def _kib(manifest: maintenance.BackupManifest) -> str:
    return f"{-(-manifest.bytes // KIB):,}"


@contextmanager
def _working(settings: Settings) -> Generator[Path]:
    """An empty folder for downloads, private to this process."""
    work = work_folder(settings.cache_dir / "backups")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
