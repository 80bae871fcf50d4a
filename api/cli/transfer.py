"""`mnemolog export` and `mnemolog import`: a tenant or a project to a file and back; and imports from other systems."""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple, cast

import msgspec
import typer
from rich.progress import Progress
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.output import FAILED, USAGE, Output, answering, one_line
from api.cli.rows import AsJson, Url, connect, on_server
from api.dialects.registry import IMPORTERS
from api.importing.room import (
    BATCH,
    MAX_BATCH,
    Format,
    ImportReport,
    ImportRequest,
    ImportState,
    Readable,
    Run,
    Source,
    StateFile,
    Unusable,
    document,
    nowhere,
    open_source,
    server,
    show,
    state_folder,
    systems,
    utf8,
    without_password,
)
from ingest.platform.clock import system_clock
from ingest.platform.settings import from_environment
from projections.operations.transfer import End, read_header

INTERRUPTED = 130
"""The exit code of a command that SIGINT ended."""
BLOCK_BYTES = 1 << 16
KIB = 1 << 10
LAST_BYTES = 1 << 10
"""Longer than the last line of an export."""
SYSTEMS = systems(IMPORTERS)
SHOWN_REJECTED = 10
"""Rejected lines shown without `--json`, which shows more."""

NOTHING = "nothing was imported: no row or event was accepted"
STDIN_STDOUT = Path("-")


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("export", epilog="Example: mnemolog export --project shop --output shop.ndjson")(export_)
    app.command("import", epilog="Examples: mnemolog import shop.ndjson; mnemolog import claude-mem --dry-run")(import_)


@on_server
def export_(
    output: Output,
    client: ApiClient,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only this project; `''` is the project without a name.")
    ] = None,
    file: Annotated[Path, typer.Option("--output", "-o", help="File to write (atomically).")] = STDIN_STDOUT,
) -> None:
    """Export the whole log, one event per line, for `mnemolog import`."""
    if file == STDIN_STDOUT:
        end = _write(client, output, project, sys.stdout.buffer)
    else:
        end = _write_file(client, output, project, file)
    if end is None:
        output.error("the export was cut off before its last line; nothing was exported")
        raise typer.Exit(FAILED)
    if file != STDIN_STDOUT:
        output.document({"file": str(file), "events": end.events, "unreadable": end.unreadable})
        output.line(Text(f"{end.events} events exported to {file}"))
    if end.unreadable:
        output.note(f"{end.unreadable} log entries are unreadable and were skipped; see the dead letters")


def import_(
    source: Annotated[
        str,
        typer.Argument(help=f"An export (`-`: stdin), or a system: {', '.join(SYSTEMS)}.", show_default=False),
    ],
    location: Annotated[
        str, typer.Argument(help="The system's file, or the URL of its server or database.", show_default=False)
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and map everything, but send nothing.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over instead of resuming an interrupted import.")
    ] = False,
    batch_size: Annotated[
        int, typer.Option(min=1, max=MAX_BATCH, help="Events per batch; progress is saved after each.")
    ] = BATCH,
    form: Annotated[Format, typer.Option("--format", help="Format of the JSONL lines.")] = Format.AUTO,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Project for agentd memories, which have none.")
    ] = None,
    source_secret: Annotated[
        str, typer.Option(envvar="AGENTMEMORY_SECRET", help="Bearer secret of the source server.")
    ] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import an export, or the data of another memory system; importing again stores nothing twice.

    For an export, exits 1 if a line is rejected or the file is truncated. For a system, rejected rows are reported, and
    running an interrupted import again resumes it. Exits 1 if nothing was accepted.
    """
    output = Output(as_json)
    if source in SYSTEMS:
        options = Options(source, location, url, source_secret, project, form, batch_size, dry_run, restart)
        run_import(options, output)
        return
    if location:
        output.error(f"{source!r} is not a known system; systems: {', '.join(SYSTEMS)}")
        raise typer.Exit(USAGE)
    if dry_run or restart:
        output.error("--dry-run and --restart are only for other systems")
        raise typer.Exit(USAGE)
    _import_export(output, Path(source), url)


def _import_export(output: Output, file: Path, url: str | None) -> None:
    with answering(output), _open_input(output, file) as source, connect(url) as client, output.progress() as progress:
        header = source.readline(BLOCK_BYTES)
        read_header(header)
        blocks = chain([header], iter(lambda: source.read(BLOCK_BYTES), b""))
        answer = client.upload("/v1/admin/import", _with_progress(progress, blocks, file))
    output.document(answer)
    repeated = f", {answer['duplicates']} already known" if answer["duplicates"] else ""
    output.line(Text(f"{answer['events']} events imported{repeated}"))
    for line in answer["rejected"][:SHOWN_REJECTED]:
        output.note(f"line {line['line']}: {line['code']}: {one_line(line['message'])}")
    if answer["rejected_lines"]:
        output.note(f"{answer['rejected_lines']} lines were rejected")
    if not answer["complete"]:
        output.note("the file is incomplete: its end is missing, or its event count does not match")
    taken = answer["events"] + answer["duplicates"]
    if not taken:
        output.note(NOTHING)
    if answer["rejected_lines"] or not (answer["complete"] and taken):
        raise typer.Exit(FAILED)


def _write_file(client: ApiClient, output: Output, project: str | None, file: Path) -> End | None:
    """Write beside the file, and rename it when it is complete."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)  # so that a planted link is not followed
        with part.open("xb") as target:
            end = _write(client, output, project, target)
        if end is not None:
            part.replace(file)
        return end
    except OSError as error:
        output.error(f"{file} cannot be written: {error.strerror}")
        raise typer.Exit(USAGE) from None
    finally:
        part.unlink(missing_ok=True)


def _write(client: ApiClient, output: Output, project: str | None, target: BinaryIO) -> End | None:
    """Copy the export; returns its last line, None if it was cut off."""
    params = {} if project is None else {"project": project}
    last = b""
    with output.progress() as progress, client.download("/v1/admin/export", params) as blocks:
        task = progress.add_task("lines", total=None)
        for block in blocks:
            target.write(block)
            progress.advance(task, block.count(b"\n"))
            last = (last + block)[-LAST_BYTES:]
    target.flush()
    try:
        return msgspec.json.decode(last.rstrip(b"\n").rpartition(b"\n")[2], type=End) if last[-1:] == b"\n" else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@contextmanager
def _open_input(output: Output, file: Path) -> Generator[Readable]:
    if file == STDIN_STDOUT:
        yield utf8(BufferedReader(cast("RawIOBase", sys.stdin.buffer)))
        return
    try:
        source = file.open("rb")
    except OSError as error:
        output.error(f"{file} cannot be read: {error.strerror}")
        raise typer.Exit(USAGE) from None
    with source:
        yield utf8(source)


def _with_progress(progress: Progress, blocks: Iterator[bytes], file: Path) -> Iterator[bytes]:
    size = None if file == STDIN_STDOUT else file.stat().st_size // KIB
    task = progress.add_task("KiB", total=size)
    sent = 0
    for block in blocks:
        yield block
        sent += len(block)
        progress.update(task, completed=sent // KIB)


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
    """Import, and report. Exits 1 or 3 if it ends early, 2 for an unusable source, 130 if interrupted."""
    with answering(output):
        if options.dry_run:
            settings = from_environment(os.environ)
            _run(options, output, None, settings.tenant)
        else:
            with connect(options.url) as client:
                _run(options, output, client, _tenant_of(client))


def _run(options: Options, output: Output, client: ApiClient | None, tenant: str) -> None:
    url = "" if client is None else client.url
    variant = f"{options.project!r} {options.form} {tenant}"
    file = StateFile(options.system, _absolute(options.location), url, variant, state_folder())
    try:
        request = ImportRequest(_absolute(options.location), tenant, options.secret, options.project, options.form)
        source = open_source(options.system, request, IMPORTERS)
        with closing(source):
            report = _import(options, output, client, source, file, tenant)
    except Unusable as error:
        output.error(str(error))
        raise typer.Exit(FAILED if error.busy else USAGE) from None
    except KeyboardInterrupt:
        output.error("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    location = without_password(options.location)
    output.document(document(report, system=options.system, location=location, dry_run=options.dry_run))
    show(output, report, dry=options.dry_run)
    if options.dry_run:
        output.note("dry run: nothing was sent")
    if not any(kind.taken for kind in report.kinds.values()):
        output.note(NOTHING)
        raise typer.Exit(FAILED)


def _import(
    options: Options, output: Output, client: ApiClient | None, source: Source, file: StateFile, tenant: str
) -> ImportReport:
    """The report of a finished import; on an early end, prints how to resume it."""
    for note in source.notes:
        output.note(note)
    state = _state(options, output, source, file, "" if client is None else client.url)
    save: Callable[[ImportState], None] = file.save if client is not None else lambda _: None  # a dry run
    sender = nowhere if client is None else server(client.post_lines, tenant)

    def hint() -> None:
        if client is not None:
            output.note(f"{state.report.rows:,} rows are done; run the same command to resume ({file.path})")

    try:
        with output.progress() as progress:
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
    except KeyboardInterrupt:
        output.error("interrupted")
        hint()
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, Unusable):
        hint()
        raise


def _state(options: Options, output: Output, source: Source, file: StateFile, url: str) -> ImportState:
    """The state of the interrupted import, otherwise a new one."""
    fresh = ImportState(options.system, without_password(options.location), url, source.fingerprint)
    previous = None if options.dry_run or options.restart else file.read()
    if previous is None:
        return fresh
    if previous.finished_at is not None:
        output.note(
            f"already imported on {previous.finished_at:%Y-%m-%d %H:%M} UTC; existing items are not stored twice"
        )
        return fresh
    if previous.fingerprint != source.fingerprint:
        output.note("the source changed since the import was interrupted; starting over")
        return fresh
    output.note(f"resuming after the first {previous.report.rows:,} rows (--restart starts over)")
    return previous


def _tenant_of(client: ApiClient) -> str:
    """A server's tenant, from the first line of an export; raises ClientError."""
    start = b""
    with client.download("/v1/admin/export", {"project": "mnemolog import: no project"}) as blocks:
        for block in blocks:
            start += block
            if b"\n" in start:
                break
    return read_header(start.partition(b"\n")[0]).tenant


def _absolute(location: str) -> str:
    return location if "://" in location or not location else str(Path(location).expanduser().absolute())
