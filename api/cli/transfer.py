"""`mnemolog admin export` and `mnemolog import`: a tenant or a project to a file and back; also from other systems."""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, cast

import msgspec
import typer

from api.cli.client import ApiClient
from api.cli.errors import ClientError
from api.cli.output import FAILED, USAGE, Failed, Output, WrongCommand, answering, one_line
from api.cli.rows import AsJson, Url, add, connect, on_server, table
from api.dialects.registry import IMPORTERS
from api.importing import room as importing
from ingest.platform.clock import system_clock
from ingest.platform.files import check_regular
from ingest.platform.settings import from_environment
from projections.operations.transfer import End, read_header

INTERRUPTED = 130
"""The exit code of a command that SIGINT ended."""
BLOCK_BYTES = 1 << 16
KIB = 1 << 10
LAST_BYTES = 1 << 10
"""Longer than the last line of an export."""
SYSTEMS = importing.systems(IMPORTERS)
SHOWN_REJECTED = 10
"""Rejected lines shown without `--json`, which shows more."""

NOTHING = "nothing was imported: no row or event was accepted"
STDIN_STDOUT = Path("-")


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, export_, "export --project shop --output shop.ndjson", "export")
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
        raise Failed
    if file != STDIN_STDOUT:
        output.document({"file": str(file), "events": end.events, "unreadable": end.unreadable})
        output.line(f"{end.events} events exported to {file}")
    if end.unreadable:
        output.note(f"{end.unreadable} log entries are unreadable and were skipped; see the dead letters")


def import_(
    source: Annotated[
        str, typer.Argument(help=f"An export (`-`: stdin), or a system: {', '.join(SYSTEMS)}.", show_default=False)
    ],
    location: Annotated[
        str, typer.Argument(help="The system's file, or the URL of its server or database.", show_default=False)
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and map everything, but send nothing.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over instead of resuming an interrupted import.")
    ] = False,
    batch_size: Annotated[
        int, typer.Option(min=1, max=importing.MAX_BATCH, help="Events per batch; progress is saved after each.")
    ] = importing.BATCH,
    form: Annotated[
        importing.Format, typer.Option("--format", help="Format of the JSONL lines.")
    ] = importing.Format.AUTO,
    project: Annotated[
        str | None,
        typer.Option("--project", "-p", help="Project for data that has none; the default depends on the system."),
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
        options = Options(source, location, source_secret, project, form, batch_size, dry_run, restart)
        with answering(output):
            if dry_run:
                _import_system(options, output, None, from_environment(os.environ).tenant)
            else:
                with connect(url) as client:
                    _import_system(options, output, client, _tenant_of(client))
        return
    with answering(output):
        if location:
            raise WrongCommand(f"{source!r} is not a known system; systems: {', '.join(SYSTEMS)}")
        if dry_run or restart:
            raise WrongCommand("--dry-run and --restart are only for other systems")
        file = Path(source)
        with _open_input(file) as lines, connect(url) as client, output.progress() as progress:
            header = lines.readline(BLOCK_BYTES)
            read_header(header)
            task = progress.add_task("KiB", total=None if file == STDIN_STDOUT else file.stat().st_size // KIB)

            def blocks() -> Iterator[bytes]:
                sent = 0
                for block in chain([header], iter(lambda: lines.read(BLOCK_BYTES), b"")):
                    yield block
                    sent += len(block)
                    progress.update(task, completed=sent // KIB)

            answer = client.upload("/v1/admin/import", blocks())
    _show_imported(output, answer)


def _show_imported(output: Output, answer: Mapping[str, Any]) -> None:
    output.document(answer)
    repeated = f", {answer['duplicates']} already known" if answer["duplicates"] else ""
    output.line(f"{answer['events']} events imported{repeated}")
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
        raise Failed


def _write_file(client: ApiClient, output: Output, project: str | None, file: Path) -> End | None:
    """Write beside the file, and rename it when it is complete."""
    check_regular(file)
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)  # so that a planted link is not followed
        with part.open("xb") as target:
            end = _write(client, output, project, target)
        if end is not None:
            part.replace(file)
        return end
    except OSError as error:
        raise WrongCommand(f"{file} cannot be written: {error.strerror}") from None
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
def _open_input(file: Path) -> Generator[importing.Readable]:
    if file == STDIN_STDOUT:
        yield importing.utf8(BufferedReader(cast("RawIOBase", sys.stdin.buffer)))
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise WrongCommand(f"{file} cannot be read: {error.strerror}") from None
    with source:
        yield importing.utf8(source)


class Options(NamedTuple):
    """The arguments of an import from another system."""

    system: str
    location: str
    secret: str
    project: str | None
    form: importing.Format
    batch: int
    dry_run: bool
    restart: bool


def _import_system(options: Options, output: Output, client: ApiClient | None, tenant: str) -> None:
    """Import, and report; without a client, only read. Exits 1 or 3 if it ends early, 2 for an unusable source."""
    url, location = "" if client is None else client.url, options.location
    if location and "://" not in location:
        location = str(Path(location).expanduser().absolute())
    variant = f"{options.project!r} {options.form} {tenant}"
    file = importing.StateFile(options.system, location, url, variant, importing.state_folder())
    try:
        request = importing.ImportRequest(location, tenant, options.secret, options.project, options.form)
        with closing(importing.open_source(options.system, request, IMPORTERS)) as source:
            report = _import(options, output, client, source, file, tenant)
    except importing.Unusable as error:
        output.error(str(error))
        raise typer.Exit(FAILED if error.busy else USAGE) from None
    except KeyboardInterrupt:
        output.error("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    location = importing.without_password(options.location)
    output.document(importing.document(report, system=options.system, location=location, dry_run=options.dry_run))
    _show_report(output, report, dry=options.dry_run)
    if options.dry_run:
        output.note("dry run: nothing was sent")
    if not any(kind.taken for kind in report.kinds.values()):
        output.note(NOTHING)
        raise Failed


def _show_report(output: Output, report: importing.ImportReport, *, dry: bool) -> None:
    """A table, and below it every reason."""
    rows = table("kind", "taken", "skipped", *(() if dry else ("events new", "known already")))
    for column in rows.columns[1:]:
        column.justify = "right"
    for name, kind in report.kinds.items():
        counts = [kind.taken, kind.skipped, *(() if dry else (kind.new, kind.known))]
        rows.add_row(name, *(f"{count:,}" for count in counts))
    output.show(rows)
    for name, kind in report.kinds.items():
        if kind.superseded:
            output.line(f"superseded, {name}: {kind.superseded:,} that later ones state again")
        for title, reasons in (("skipped", kind.why), ("not kept", kind.lost)):
            for reason, counted in sorted(reasons.items(), key=lambda item: -item[1].rows):
                some = ", ".join(one_line(example, 40) for example in counted.examples)
                more = ", …" if counted.rows > len(counted.examples) else ""
                line = f"{title}, {name}: {counted.rows:,} × {one_line(reason)} ({some}{more})"
                output.line(line, style="yellow" if title == "skipped" else "dim")


def _import(
    options: Options,
    output: Output,
    client: ApiClient | None,
    source: importing.Source,
    file: importing.StateFile,
    tenant: str,
) -> importing.ImportReport:
    """The report of a finished import; on an early end, prints how to resume it."""
    for note in source.notes:
        output.note(note)
    state = _state(options, output, source, file, "" if client is None else client.url)
    save: Callable[[importing.ImportState], None] = file.save if client is not None else lambda _: None  # a dry run
    sender = importing.nowhere if client is None else importing.server(client.post_lines, tenant)
    try:
        with output.progress() as progress:
            task = progress.add_task("rows", total=source.total(), completed=state.report.rows)
            run = importing.Run(
                source, sender, state, save, tenant=tenant, batch=options.batch,
                on_rows=lambda count: progress.advance(task, count),
            )  # fmt: skip
            return run.run(system_clock)
    except (KeyboardInterrupt, ClientError, importing.Unusable):
        if client is not None:
            output.note(f"{state.report.rows:,} rows are done; run the same command to resume ({file.path})")
        raise


def _state(
    options: Options, output: Output, source: importing.Source, file: importing.StateFile, url: str
) -> importing.ImportState:
    """The state of the interrupted import, otherwise a new one."""
    fresh = importing.ImportState(options.system, importing.without_password(options.location), url, source.fingerprint)
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
