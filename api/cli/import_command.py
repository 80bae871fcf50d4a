"""`mnemolog import SYSTEM`: opens the source, runs the import, reports the result."""

import os
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import typer

from api.cli.client import ApiClient, ClientError
from api.cli.commands import connect
from api.cli.output import FAILED, USAGE, Output, answering
from api.importing.report import ImportReport, document, show
from api.importing.run import ImportState, Run, StateFile, nowhere, server, state_folder
from api.importing.source import Source, Unusable
from api.importing.systems import ImportRequest, opened, shown
from api.importing.transcripts import Format
from ingest.platform.clock import system_clock
from ingest.platform.settings import from_environment
from projections.operations.transfer import read_header

INTERRUPTED = 130
"""What a shell says of a command that SIGINT ended."""


class Options(NamedTuple):
    """The arguments of the command."""

    system: str
    location: str
    url: str | None
    secret: str
    project: str | None
    form: Format
    batch: int
    dry_run: bool
    restart: bool


def run_import(options: Options, output: Output) -> None:
    """Import, and report. Exits 1 or 3 when it ended early, 2 when the source is none, 130 when it was interrupted."""
    with answering(output):
        if options.dry_run:
            settings = from_environment(os.environ)
            _run(options, output, None, settings.tenant)
        else:
            with connect(options.url) as client:
                _run(options, output, client, _tenant(client))


def _run(options: Options, output: Output, client: ApiClient | None, tenant: str) -> None:
    url = "" if client is None else client.url
    variant = f"{options.project!r} {options.form} {tenant}"
    file = StateFile(options.system, _absolute(options.location), url, variant, state_folder())
    with _explained(output):
        wanted = ImportRequest(_absolute(options.location), tenant, options.secret, options.project, options.form)
        source = opened(options.system, wanted)
        with closing(source):
            report = _taken(options, output, client, source, file, tenant)
    _say(options, output, report)


def _taken(
    options: Options, output: Output, client: ApiClient | None, source: Source, file: StateFile, tenant: str
) -> ImportReport:
    """The report of an import that came to its end."""
    for note in source.notes:
        output.note(note)
    state = _state(options, output, source, file, "" if client is None else client.url)
    save = file.save if client is not None else _forget
    sender = nowhere if client is None else server(client.post_lines, tenant)
    with _resumable(output, state, file, dry=client is None), output.progress() as progress:
        task = progress.add_task("rows", total=source.total(), completed=state.report.rows)
        run = Run(
            source,
            sender,
            state,
            save,
            tenant=tenant,
            batch=options.batch,
            on_rows=lambda count: progress.advance(task, count),
        )
        return run.run(system_clock)


def _state(options: Options, output: Output, source: Source, file: StateFile, url: str) -> ImportState:
    """The state to begin with: that of an import which was not finished, else a new one."""
    fresh = ImportState(options.system, shown(options.location), url, source.fingerprint)
    known = None if options.dry_run or options.restart else file.read()
    if known is None:
        return fresh
    if known.finished_at is not None:
        output.note(
            f"this was imported on {known.finished_at:%Y-%m-%d %H:%M} UTC; what is there already is not stored twice"
        )
        return fresh
    if known.fingerprint != source.fingerprint:
        output.note("the source has changed since the import was interrupted; it starts over")
        return fresh
    output.note(f"resuming after the first {known.report.rows:,} rows, which are done (--restart starts over)")
    return known


def _say(options: Options, output: Output, report: ImportReport) -> None:
    output.document(
        document(
            report,
            system=options.system,
            location=shown(options.location),
            dry_run=options.dry_run,
        )
    )
    show(output, report, dry=options.dry_run)
    if options.dry_run:
        output.note("nothing was sent: this was a dry run")


@contextmanager
def _resumable(output: Output, state: ImportState, file: StateFile, *, dry: bool) -> Generator[None]:
    """Says how an import that ends early goes on."""

    def hint() -> None:
        if not dry:
            output.note(f"{state.report.rows:,} rows are done; the same command resumes from there ({file.path})")

    try:
        yield
    except KeyboardInterrupt:
        output.error("interrupted")
        hint()
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, Unusable):
        hint()
        raise


@contextmanager
def _explained(output: Output) -> Generator[None]:
    """Turns a source that cannot be read into a message and its exit code."""
    try:
        yield
    except Unusable as error:
        output.error(str(error))
        raise typer.Exit(FAILED if error.busy else USAGE) from None
    except KeyboardInterrupt:
        output.error("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _tenant(client: ApiClient) -> str:
    """The tenant of a server, as the first line of its export says it; raises ClientError."""
    with client.download("/v1/admin/export", {"project": "mnemolog import: no project"}) as blocks:
        return read_header(_first_line(blocks)).tenant


def _first_line(blocks: Iterator[bytes]) -> bytes:
    read = b""
    for block in blocks:
        read += block
        if b"\n" in read:
            break
    return read.partition(b"\n")[0]


def _absolute(location: str) -> str:
    """A path as the next run may say it from elsewhere; a URL as it is."""
    return location if "://" in location or not location else str(Path(location).expanduser().absolute())


def _forget(state: ImportState) -> None:
    """A dry run leaves no state."""
