"""What would 100 million events need? Tables of two pages, made of the figures that `benchmarks.sizing` measured.

    python -m benchmarks.plan [--events 100000000] [--days 365] [--peak 10] [--engine-bytes N] [--write]

Every row of the plan is a formula of measured figures (`benchmarks/sizing.json`) and of what is assumed, which options
change; it is arithmetic, nothing of that size was run. `--write` puts the tables into docs/howto/size-a-machine.md and
docs/howto/plan-for-100-million-events.md. Pure but for that.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import written

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks/sizing.json"
SIZES, PLAN = ROOT / "docs/howto/size-a-machine.md", ROOT / "docs/howto/plan-for-100-million-events.md"
BASIS = "agent work"
"""The texts, of those that were measured, that the plan goes by."""
KINDS = ("observation", "memory", "lesson")

INDEX_BYTES = 3_264
"""Of a document in each API process: benchmarks.footprint, 100,000 documents (benchmarks/README.md)."""
ENGINE_BYTES: float | None = 4_647
"""Of a document in a search engine: benchmarks.search_engine, 1,000,000 documents."""
LEDGER_BYTES = 24
"""Of a retired observation: benchmarks.key_families."""
DEDUP_ID_BYTES, DEDUP_IDS, DEDUP_S = 132, 250_000, 3_600
"""Of an event id at most, and how many a partition remembers for how long: their defaults."""
FEED_BYTES = 64 * 2**20
"""Of all change feeds together (docs/operations.md#what-grows)."""
CACHE_DAYS, ARCHIVE_AFTER_S = 30, 3_600
"""MNEMOLOG_EMBEDDING_CACHE_DAYS, MNEMOLOG_ARCHIVE_AFTER: their defaults."""
CEILING = 0.85
"""Of maxmemory, above which writes are refused: MNEMOLOG_MEMORY_CEILING."""
BUSY = 0.6
"""Of a core, that is planned with."""
FILE_TIMES = 3
"""What an append-only file may take beside what it holds: old, new, and what is written meanwhile."""
WORKERS = (3, 12, 48)
STORES = {
    "log": "log, without an archive",
    "archive": "log, in an archive",
    "documents": "documents and listings",
    "vectors": "cached vectors",
    "feed": "change feed, until trimmed",
    "file": "append-only file, until rewritten",
}
"""Where an event takes room, and how a row is called."""
DAY_S, HOUR_MS = 86_400, 3_600_000


class Load(NamedTuple):
    """What is assumed. `searchable_days` are those after which observations are retired; `node_bytes` is maxmemory."""

    events: float = 100e6
    days: float = 365
    peak: float = 10
    memories: float = 0.08
    lessons: float = 0.02
    searchable_days: float = 365
    questions: float = 0.1
    partitions: int = 256
    node_bytes: float = 48e9
    replicas: int = 1
    engine_bytes: float | None = ENGINE_BYTES

    @property
    def shares(self) -> dict[str, float]:
        """Of all events, by kind."""
        return dict(zip(KINDS, (1 - self.memories - self.lessons, self.memories, self.lessons), strict=True))

    @property
    def rate(self) -> float:
        """Events a second, on average."""
        return self.events / (self.days * DAY_S)

    @property
    def documents(self) -> dict[str, float]:
        """Documents that can be searched at the end, by kind."""
        kept = min(1.0, self.searchable_days / self.days)
        return {kind: self.events * self.shares[kind] * (kept if kind == "observation" else 1) for kind in KINDS}

    @property
    def all_documents(self) -> float:
        """Of all kinds."""
        return sum(self.documents.values())

    @property
    def retired(self) -> float:
        """Observations that are not among them any more."""
        return self.events - self.all_documents


Measured = Mapping[str, Any]
Figure = Callable[[Load, Measured], float | None]


@dataclass(frozen=True)
class Row:
    """A figure of the plan, how it is written and how it comes about."""

    name: str
    formula: str
    unit: str
    figure: Figure


def of_an_event(load: Load, by_kind: Mapping[str, Mapping[str, float]], name: str) -> float:
    """The mean of a figure over the kinds of events."""
    return sum(load.shares[kind] * by_kind[kind][name] for kind in KINDS)


def embedding_ms(measured: Measured, kind: str = "observation") -> float:
    """Processor milliseconds that the contextual vector of a text takes: what a worker takes with it, less without."""
    return measured["ms"][kind]["worker"] - measured["ms_without_embedder"][kind]["worker"]


def documents_bytes(load: Load, measured: Measured) -> float:
    """Of documents and listings in Valkey."""
    return sum(load.documents[kind] * measured["bytes"][kind]["documents"] for kind in KINDS)


def vectors_bytes(load: Load, measured: Measured) -> float:
    """Of the vectors that are kept for texts that come again."""
    return load.rate * DAY_S * min(CACHE_DAYS, load.days) * of_an_event(load, measured["bytes"], "vectors")


def young_log_bytes(load: Load, measured: Measured) -> float:
    """Of the log that is not in the archive yet, at the peak."""
    return load.rate * load.peak * ARCHIVE_AFTER_S * of_an_event(load, measured["bytes"], "log")


def small_bytes(load: Load, _: Measured) -> float:
    """Of ledgers, dedup windows and change feeds."""
    ids = min(load.rate * load.peak * DEDUP_S, load.partitions * DEDUP_IDS)
    return load.retired * LEDGER_BYTES + ids * DEDUP_ID_BYTES + FEED_BYTES


def valkey_bytes(load: Load, measured: Measured) -> float:
    """What all primaries hold together, the log in an archive."""
    parts = (documents_bytes, vectors_bytes, young_log_bytes, small_bytes)
    return sum(part(load, measured) for part in parts)


def maxmemory_bytes(load: Load, measured: Measured) -> float:
    """What that needs with a second copy of the documents, for a rebuild, and writes still accepted."""
    return (valkey_bytes(load, measured) + documents_bytes(load, measured)) / CEILING


def primaries(load: Load, measured: Measured) -> float:
    """How many of `node_bytes` that is; three at least, so that a majority is left when one fails."""
    return max(3, math.ceil(maxmemory_bytes(load, measured) / load.node_bytes))


def cores(load: Load, milliseconds: float, times: float = 1.0) -> float:
    """Processors at the peak for what takes so long an event."""
    return load.rate * load.peak * times * milliseconds / 1000 / BUSY


def rebuild_hours(load: Load, measured: Measured, workers: int) -> float:
    """The workers' time, a core each, or Valkey's, a core each primary: whichever is more."""
    taken = measured["rebuild_ms"]
    work = max(taken["worker"] / workers, taken["valkey"] / primaries(load, measured))
    return load.events * work / HOUR_MS


def embedding_hours(load: Load, measured: Measured, workers: int) -> float:
    """For the vectors of all documents, by so many workers of a core each."""
    return load.all_documents * embedding_ms(measured) / workers / HOUR_MS


ROWS: tuple[Row, ...] = (
    Row("events a second, on average", "events / days", "/s", lambda load, _: load.rate),
    Row("the same, at the peak", "x peak", "/s", lambda load, _: load.rate * load.peak),
    Row("documents at the end", "events, less retired observations", "", lambda load, _: load.all_documents),
    Row("Valkey: documents and listings", "documents x bytes, by kind", "B", documents_bytes),
    Row("Valkey: vectors kept 30 days", "events of 30 days x bytes", "B", vectors_bytes),
    Row("Valkey: the log, young part", "an hour at the peak x bytes", "B", young_log_bytes),
    Row("Valkey: ledgers, dedup windows, feeds", "retired x 24 B + ids of an hour x 132 B + 64 MiB", "B", small_bytes),
    Row("Valkey, all primaries", "sum", "B", valkey_bytes),
    Row("`maxmemory`, all primaries", "(sum + documents again, for a rebuild) / 0.85", "B", maxmemory_bytes),
    Row("primaries of 48 GB", "rounded up, three at least", "", primaries),
    Row("servers with replicas", "x (1 + replicas)", "",
        lambda load, measured: primaries(load, measured) * (1 + load.replicas)),
    Row("disk: append-only files, all servers", "3 x sum x (1 + replicas)", "B",
        lambda load, measured: FILE_TIMES * valkey_bytes(load, measured) * (1 + load.replicas)),
    Row("disk: archive of the log", "events x bytes of an observation", "B",
        lambda load, measured: load.events * measured["bytes"]["observation"]["archive"]),
    Row("disk: backup of the log elsewhere", "the same", "B",
        lambda load, measured: load.events * measured["bytes"]["observation"]["archive"]),
    Row("memory of the log without an archive", "events x bytes", "B",
        lambda load, measured: load.events * of_an_event(load, measured["bytes"], "log")),
    Row("API cores, writes one by one, peak", "peak x ms / 0.6", "",
        lambda load, measured: cores(load, measured["ms_without_embedder"]["observation alone"]["api"])),
    Row("API cores, questions, peak", "peak x questions an event x ms of a recall / 0.6", "",
        lambda load, measured: cores(load, measured["questions_ms"]["recall"]["api"], load.questions)),
    Row("worker cores, projecting, peak", "peak x ms / 0.6", "",
        lambda load, measured: cores(load, of_an_event(load, measured["ms_without_embedder"], "worker"))),
    Row("worker cores, embedding, peak", "peak x ms / 0.6", "",
        lambda load, measured: cores(load, embedding_ms(measured))),
    *(Row(f"rebuild, {count} workers", "events x max(worker ms / workers, Valkey ms / primaries)", "h",
          partial(rebuild_hours, workers=count)) for count in WORKERS),
    *(Row(f"embedding all again, {count} workers", "documents x ms / workers", "h",
          partial(embedding_hours, workers=count)) for count in WORKERS),
    Row("index in **each** API process, embedded", f"documents x {INDEX_BYTES:,} B", "B",
        lambda load, _: load.all_documents * INDEX_BYTES),
    Row("snapshots of it, old and new", "2 x documents x bytes", "B",
        lambda load, measured: 2 * load.all_documents * measured["snapshot_bytes"]),
    Row("index on a search engine, once", "documents x bytes in the engine", "B",
        lambda load, _: None if load.engine_bytes is None else load.all_documents * load.engine_bytes),
)  # fmt: skip


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit: three digits that count, bytes as MB, GB or TB."""
    if value is None:
        return "not measured"
    if unit == "B":
        size = next((one for one in (12, 9) if value >= 10**one), 6)
        return f"{written(value / 10**size)} {({6: 'MB', 9: 'GB', 12: 'TB'})[size]}"
    return written(value, unit)


def plan(loads: Mapping[str, Load], measured: Measured) -> str:
    """The table of the plan: a row a figure, a column a load."""
    lines = [["figure", "formula", *loads], ["---"] * (2 + len(loads))]
    lines += [
        [row.name, row.formula, *(amount(row.figure(one, measured), row.unit) for one in loads.values())]
        for row in ROWS
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def sizes(figures: Mapping[str, Measured]) -> str:
    """The table of what was measured: a row a figure, a column for each set of texts."""
    lines = [["measured", *figures], ["---"] * (1 + len(figures))]
    for name, unit, path in sizes_rows():
        values = [_found(one, path) for one in figures.values()]
        if any(value is not None for value in values):
            lines.append([name, *("" if one is None else f"{written(one)} {unit}" for one in values)])
    for kind in KINDS:
        lines.append([f"{kind}: embedding", *(f"{written(embedding_ms(one, kind))} ms" for one in figures.values())])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def sizes_rows() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What a row says, its unit, and where the figure is."""
    yield "text of an observation", "B", ("text_bytes",)
    yield "text of a memory or a lesson", "B", ("kept_bytes",)
    yield from ((f"{kind}: {name}", "B", ("bytes", kind, store)) for kind in KINDS for store, name in STORES.items())
    yield "snapshot of the index, a document", "B", ("snapshot_bytes",)
    yield "observation, one a request: API", "ms", ("ms_without_embedder", "observation alone", "api")
    for kind in KINDS:
        yield f"{kind}, in a batch: API", "ms", ("ms_without_embedder", kind, "api")
        yield f"{kind}: worker, projecting", "ms", ("ms_without_embedder", kind, "worker")
        yield f"{kind}: Valkey, with an embedder", "ms", ("ms", kind, "valkey")
    for question in ("recall", "recall, repeated", "context", "list"):
        yield f"{question}: API", "ms", ("questions_ms", question, "api")
        yield f"{question}: Valkey", "ms", ("questions_ms", question, "valkey")
    yield "rebuild, an event: worker", "ms", ("rebuild_ms", "worker")
    yield "rebuild, an event: Valkey", "ms", ("rebuild_ms", "valkey")


def _found(measured: Any, path: Sequence[str]) -> float | None:
    for name in path:
        measured = measured.get(name) if measured is not None else None
    return measured


def loads(load: Load) -> dict[str, Load]:
    """The two columns of the plan."""
    return {"all searchable": load, "observations for 30 days": load._replace(searchable_days=30)}


def replaced(page: str, table: str) -> str:
    """The page with the table between its markers."""
    before, begin, rest = page.partition("<!-- table: begin -->\n")
    _, end, after = rest.partition("\n<!-- table: end -->")
    if not begin or not end:
        raise ValueError("the page lacks a marker of its table")
    return f"{before}{begin}\n{table}\n{end}{after}"


def pages(figures: Mapping[str, Measured], load: Load) -> dict[Path, str]:
    """What the two pages are with these figures."""
    made = {SIZES: sizes(figures), PLAN: plan(loads(load), figures[BASIS])}
    return {path: replaced(path.read_text(), table) for path, table in made.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the plan, or write both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = Load()
    parser.add_argument("--events", type=float, default=known.events)
    parser.add_argument("--days", type=float, default=known.days, help="that they take")
    parser.add_argument("--peak", type=float, default=known.peak, help="times the mean rate")
    parser.add_argument("--memories", type=float, default=known.memories, help="share of the events")
    parser.add_argument("--lessons", type=float, default=known.lessons, help="share of the events")
    parser.add_argument("--questions", type=float, default=known.questions, help="an event")
    parser.add_argument("--partitions", type=int, default=known.partitions)
    parser.add_argument(
        "--engine-bytes", type=float, default=known.engine_bytes, help="of a document in a search engine"
    )
    parser.add_argument("--write", action="store_true")
    options = vars(parser.parse_args(arguments))
    write = options.pop("write")
    figures: dict[str, Measured] = json.loads(FIGURES.read_text())
    load = Load(**options)
    print(plan(loads(load), figures[BASIS]))
    if write:
        for path, text in pages(figures, load).items():
            path.write_text(text)


if __name__ == "__main__":
    main()
