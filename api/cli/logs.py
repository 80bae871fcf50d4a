"""`mnemolog logs`: what the processes of `mnemolog up` wrote, in the order of time, and then as they go on."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from api.cli.commands import AsJson
from api.cli.output import FAILED, USAGE, Output, answering, plain
from ingest.platform.settings import from_environment

POLL_S = 0.3
MOST_BYTES = 1 << 20
"""Of a file that is read from its end, and of what a process writes between two looks."""
_STAMPS = (
    (re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) "), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"\d+:[A-Z] (\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d)\.(\d{3}) "), "%d %b %Y %H:%M:%S"),
)
"""How our processes, and Valkey, begin a line; in local time."""
_JSON_STAMP = re.compile(r'\{"time": "(\d{4}-[0-9T:.+-]+)"')
"""How our processes do with MNEMOLOG_LOG_FORMAT=json; in UTC."""
_COLOURS = (("ERROR", "red"), ("CRITICAL", "red"), ("error:", "red"), ("WARNING", "yellow"))


class Line(NamedTuple):
    """A line of a log; `at` is that of the line before where it has no time, empty where none has."""

    at: str
    process: str
    text: str


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog logs worker --follow")(logs)


def logs(
    processes: Annotated[
        list[str],
        typer.Argument(metavar="[PROCESS]...", help="api, worker, worker-2, valkey; else all.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="The last so many.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the logs of the processes that `mnemolog up` runs on this machine. Exits 1 when there are none."""
    output = Output(as_json)
    with answering(output):
        folder = from_environment(os.environ).data_dir
    files = log_files(folder)
    if unknown := sorted(set(processes) - files.keys()) if files else []:
        output.error(f"there is no log of {unknown[0]!r}; there are: {', '.join(files)}")
        raise typer.Exit(USAGE)
    if not files:
        output.error(f"there are no logs in {folder}: `mnemolog up` writes them, to MNEMOLOG_DATA_DIR")
        raise typer.Exit(FAILED)
    files = {name: path for name, path in files.items() if not processes or name in processes}
    width = max(map(len, files))
    ends = {name: path.stat().st_size for name, path in files.items()}
    last = [line for name, path in files.items() for line in last_lines(name, path, lines, ends[name])]
    newest = sorted(last, key=lambda line: line.at)
    for line in newest[len(newest) - lines :] if lines else []:
        _print(output, line, width)
    try:
        for line in followed(files, ends) if follow else ():
            _print(output, line, width)
    except KeyboardInterrupt:
        return


def log_files(folder: Path) -> dict[str, Path]:
    """The log of each process, by its name."""
    found = sorted((folder / "logs").glob("*.log")) + list((folder / "valkey").glob("valkey.log"))
    return {path.stem: path for path in found}


def last_lines(name: str, path: Path, count: int, end: int) -> Iterator[Line]:
    """The last lines of a file's first `end` bytes, with the times they have or follow."""
    with path.open("rb") as file:
        start = max(0, end - MOST_BYTES)
        file.seek(start)
        written = file.read(end - start).decode(errors="replace").splitlines()
    at = ""
    found: list[Line] = []
    for text in written[1:] if start else written:
        at = stamp(text) or at
        found.append(Line(at, name, text))
    yield from found[len(found) - count :] if count else ()


def followed(files: Mapping[str, Path], ends: dict[str, int]) -> Iterator[Line]:
    """What is written behind `ends`, whole lines only; never ends. A file that was cut is read from its beginning."""
    while True:
        for name, path in files.items():
            if not path.exists():
                continue
            size = path.stat().st_size
            begin = ends[name] if size >= ends[name] else 0
            with path.open("rb") as file:
                file.seek(begin)
                written = file.read(min(size - begin, MOST_BYTES))
            whole = len(written) if len(written) == MOST_BYTES else written.rfind(b"\n") + 1
            ends[name] = begin + whole
            for text in written[:whole].decode(errors="replace").splitlines():
                yield Line(stamp(text), name, text)
        time.sleep(POLL_S)


def stamp(text: str) -> str:
    """When a line was written, to be sorted by; empty where it does not begin with that."""
    if found := _JSON_STAMP.match(text):
        return datetime.fromisoformat(found[1]).astimezone().replace(tzinfo=None).isoformat(timespec="milliseconds")
    for pattern, form in _STAMPS:
        if found := pattern.match(text):
            return f"{datetime.strptime(found[1], form).isoformat()}.{found[2]}"
    return ""


def _print(output: Output, line: Line, width: int) -> None:
    output.record({"process": line.process, "at": line.at, "line": line.text})
    style = next((colour for word, colour in _COLOURS if word in line.text), "")
    told = Text(f"{line.process:<{width}}  ", style="cyan").append(plain(line.text), style=style or "default")
    output.line(told)
