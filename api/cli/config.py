"""`mnemolog admin config`: every setting and its source. `mnemolog admin logs`: the logs of `mnemolog up`, by time."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from api.cli.output import Failed, Output, WrongCommand
from api.cli.rows import Url, add, on_machine, table
from ingest.platform.addresses import KEY_VARIABLES, client_key, key_file
from ingest.platform.settings import CLIENT_VARIABLES, VARIABLES, from_environment, stated, to_environment
from ingest.secrets.redaction import HIDDEN, redacted, secrets_of

DEFAULT, ENVIRONMENT, UNSET = "default", "environment", "not set"
SECRETS = frozenset({"MNEMOLOG_SECRET", "MNEMOLOG_KEY", "MNEMOLOG_EMBEDDER_KEY", "MNEMOLOG_LLM_KEY", "HF_TOKEN"})
_DERIVED = {
    "MNEMOLOG_DATA_DIR": "XDG_DATA_HOME",
    "MNEMOLOG_CACHE_DIR": "XDG_CACHE_HOME",
    "MNEMOLOG_SPOOL": "XDG_STATE_HOME",
    "MNEMOLOG_URL": "MNEMOLOG_PORT",
}
"""Settings whose default depends on another variable."""


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add(app, config, "config --changed")
    add(app, logs, "logs worker --follow")


@on_machine
def config(
    output: Output,
    names: Annotated[
        list[str],
        typer.Argument(metavar="[NAME]...", help="Only these settings, with their meaning.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that differ from the default.")] = False,
    url: Url = None,
) -> None:
    """Show every setting of this environment, and where it comes from. Secrets are masked."""
    rows = settings_of(os.environ)
    key = key_of(url, os.environ)
    if unknown := sorted(set(names) - rows.keys()):
        raise WrongCommand(f"there is no setting {unknown[0]!r}; `mnemolog admin config` lists them all")
    listed = {
        name: row
        for name, row in rows.items()
        if (not names or name in names) and (not changed or row["from"] not in (DEFAULT, UNSET))
    }
    output.document({"settings": listed, "key": key})
    lines = table("setting", "value", "from", *(["meaning"] if names else []))
    for name, row in listed.items():
        style = "dim" if row["from"] in (DEFAULT, UNSET) else ""
        cells = [name, row["value"] or "-", row["from"], *([row["meaning"]] if names else [])]
        lines.add_row(*(Text(text, style=style) for text in cells))
    output.show(lines)
    if not names:
        output.note(f"commands send to {key['server']}: {key['from']}")


def settings_of(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Each variable with `value`, `from` and `meaning`; raises InvalidSetting."""
    settings = from_environment(environ)
    values, secrets = to_environment(settings), secrets_of(settings)
    values |= {name: environ[name] for name in CLIENT_VARIABLES if name in environ}
    rows: dict[str, dict[str, str]] = {}
    for name, meaning in {**VARIABLES, **CLIENT_VARIABLES}.items():
        value, origin = values.get(name, ""), UNSET
        if value:
            variable, raw = stated(name, environ)
            derived = _DERIVED.get(name, "")
            source = derived if environ.get(derived) else DEFAULT
            origin = (ENVIRONMENT if variable == name else variable) if raw else source
        masked = HIDDEN if name in SECRETS and value else redacted(value, secrets)
        rows[name] = {"value": masked, "from": origin, "meaning": meaning}
    return rows


def key_of(url: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The key that commands send to a server: `server`, `from`; raises InvalidSetting if others can read its file."""
    server = url or from_environment(environ).url
    key = client_key(server, environ)
    for name in (*KEY_VARIABLES, "AGENTMEMORY_SECRET"):
        if key and key == environ.get(name):
            return {"server": server, "from": f"the key in {name}"}
    return {"server": server, "from": f"the key in {key_file(server, environ)}" if key else "no key"}


POLL_S = 0.3
MOST_BYTES = 1 << 20
"""Read at most this much from the end of a file, and of the new lines of a process at a time."""
_STAMPS = (
    (re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) "), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"\d+:[A-Z] (\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d)\.(\d{3}) "), "%d %b %Y %H:%M:%S"),
)
"""Timestamps of our processes and of Valkey, in local time."""
_JSON_STAMP = re.compile(r'\{"time": "(\d{4}-[0-9T:.+-]+)"')
"""The same with MNEMOLOG_LOG_FORMAT=json, in UTC."""
_COLORS = (("ERROR", "red"), ("CRITICAL", "red"), ("error:", "red"), ("WARNING", "yellow"))


class Line(NamedTuple):
    """A line of a log; one without a time has that of the line before, or an empty one."""

    at: str
    process: str
    text: str


@on_machine
def logs(
    output: Output,
    processes: Annotated[
        list[str],
        typer.Argument(metavar="[PROCESS]...", help="api, worker, worker-2, valkey; else all.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="Number of lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C.")] = False,
) -> None:
    """Print the logs of the processes that `mnemolog up` runs on this machine. Exits 1 if there are none."""
    folder = from_environment(os.environ).data_dir
    files = log_files(folder)
    if unknown := sorted(set(processes) - files.keys()) if files else []:
        raise WrongCommand(f"there is no log of {unknown[0]!r}; logs: {', '.join(files)}")
    if not files:
        output.error(f"there are no logs in {folder}; `mnemolog up` writes them to MNEMOLOG_DATA_DIR")
        raise Failed
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
    paths = sorted((folder / "logs").glob("*.log")) + list((folder / "valkey").glob("valkey.log"))
    return {path.stem: path for path in paths}


def last_lines(name: str, path: Path, count: int, end: int) -> Iterator[Line]:
    """The last lines of a file's first `end` bytes."""
    with path.open("rb") as file:
        start = max(0, end - MOST_BYTES)
        file.seek(start)
        written = file.read(end - start).decode(errors="replace").splitlines()
    lines: list[Line] = []
    for text in written[1:] if start else written:
        lines.append(Line(stamp(text) or (lines[-1].at if lines else ""), name, text))
    yield from lines[len(lines) - count :] if count else ()


def followed(files: Mapping[str, Path], ends: dict[str, int]) -> Iterator[Line]:
    """Complete lines written after `ends`, forever. A truncated file is read from its beginning."""
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
    """When a line was written, as a sortable text; empty if it has no timestamp."""
    if match := _JSON_STAMP.match(text):
        return datetime.fromisoformat(match[1]).astimezone().replace(tzinfo=None).isoformat(timespec="milliseconds")
    for pattern, form in _STAMPS:
        if match := pattern.match(text):
            return f"{datetime.strptime(match[1], form).isoformat()}.{match[2]}"
    return ""


def _print(output: Output, line: Line, width: int) -> None:
    output.record({"process": line.process, "at": line.at, "line": line.text})
    style = next((color for word, color in _COLORS if word in line.text), "")
    text = Text(f"{line.process:<{width}}  ", style="cyan").append(line.text, style=style or "default")
    output.line(text)
