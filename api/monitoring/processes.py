"""Figures of several API processes on one port, from whichever is asked.

A scrape reaches one of them by chance, so each leaves its figures where the others find them, every LEAVE_EVERY_S. What
is a process's own is told of all of them, with its number as the label `process`; what is the log's, once.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from api.api_processes import ApiProcess
from ingest.platform.tasks import end

LEAVE_EVERY_S = 2.0
COUNTS_FOR_S = 10.0
"""Figures that are older are of a process that has ended."""
OWN = (
    "mnemolog_http_", "mnemolog_append_waiting", "mnemolog_index_", "mnemolog_ready", "mnemolog_writes_refused",
)  # fmt: skip
"""How the names of a process's own figures begin."""


class ProcessFigures:
    """Leaves the figures of one process, and finds those of the others. An async context manager."""

    def __init__(self, api_process: ApiProcess, text: Callable[[], bytes]) -> None:
        self._sibling, self._text = api_process, text
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="figures for the other processes")
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._task is not None:
            await end(self._task)
        self._file(self._sibling.number).unlink(missing_ok=True)

    def of_all(self) -> bytes:
        """The figures now, with those that the others left."""
        texts = {self._sibling.number: self._text()}
        for number in range(self._sibling.processes):
            if number not in texts and (text := _fresh(self._file(number))):
                texts[number] = text
        return merged({number: texts[number].decode() for number in sorted(texts)}, self._sibling.number).encode()

    async def _run(self) -> None:
        own = self._file(self._sibling.number)
        while True:
            beside = own.with_suffix(".new")
            beside.write_bytes(self._text())
            beside.replace(own)
            await asyncio.sleep(LEAVE_EVERY_S)

    def _file(self, number: int) -> Path:
        return self._sibling.folder / f"figures-{number}"


def merged(texts: Mapping[int, str], asked: int) -> str:
    """One exposition of several processes' texts: what is OWN of each, with a label, the rest of the one asked."""
    parts: list[str] = []
    families = {number: dict(_families(text)) for number, text in texts.items()}
    for name, (about, samples) in families[asked].items():
        parts += about
        if not name.startswith(OWN):
            parts += samples
            continue
        for number, found in families.items():
            parts += [_labelled(line, number) for line in found.get(name, ((), ()))[1]]
    return "\n".join(parts) + "\n"


def _families(text: str) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    """Each family's name, the lines about it, and its samples."""
    for block in text.removeprefix("# HELP ").split("\n# HELP "):
        lines = f"# HELP {block}".rstrip("\n").split("\n")
        about = [line for line in lines if line.startswith("#")]
        yield block.split(" ", 1)[0], (about, lines[len(about) :])


def _labelled(sample: str, number: int) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{process="{number}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{process="{number}"}} {value}'


def _fresh(file: Path) -> bytes:
    try:
        return file.read_bytes() if time.time() - file.stat().st_mtime < COUNTS_FOR_S else b""
    except OSError:
        return b""
