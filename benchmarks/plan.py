"""What would 100 million events need? Tables of two pages, computed from the figures that `sizing` measured.

    python -m benchmarks.plan [--events 100000000] [--days 365] [--peak 10] [--engine-bytes N] [--write]

Every row is a formula of measured figures (`benchmarks/sizing.json`) and of assumptions, which options change. It is
arithmetic; nothing of that size was run. `--write` puts the tables into docs/howto/size-a-machine.md and
docs/howto/plan-for-100-million-events.md.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import written

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks/sizing.json"
SIZES, PLAN = ROOT / "docs/howto/size-a-machine.md", ROOT / "docs/howto/plan-for-100-million-events.md"
BASIS = "agent work"  # the measured texts that the plan is based on
KINDS = ("observation", "memory", "lesson")
INDEX_BYTES = 2_057  # of a document in each API process: `footprint`, 100,000 documents (benchmarks/README.md)
ENGINE_BYTES: float | None = 4_647  # of a document in a search engine: `search_engine`, 1,000,000 documents
LEDGER_BYTES = 24  # of a retired observation: `key_families`
DEDUP_ID_BYTES, DEDUP_IDS, DEDUP_S = 132, 250_000, 3_600
"""Of an event id at most, and how many a partition remembers for how long: their defaults."""
FEED_BYTES = 64 * 2**20  # of all change feeds together (docs/operations/storage.md#what-grows)
CACHE_DAYS, ARCHIVE_AFTER_S = 30, 3_600  # MNEMOLOG_EMBEDDING_CACHE_DAYS, MNEMOLOG_ARCHIVE_AFTER: their defaults
CEILING = 0.85  # of maxmemory, above which writes are refused: MNEMOLOG_MEMORY_CEILING
BUSY = 0.6  # of a core, in the plan
FILE_TIMES = 3  # size of an append-only file during a rewrite, times its content: old, new, and new writes
WORKERS = (3, 12, 48)
STORES = {
    "log": "log, without an archive",
    "archive": "log, in an archive",
    "documents": "documents and listings",
    "vectors": "cached vectors",
    "feed": "change feed, until trimmed",
    "file": "append-only file, until rewritten",
}
DAY_S, HOUR_MS = 86_400, 3_600_000

Measured = Mapping[str, Any]


class Load(NamedTuple):
    """Assumptions. Observations are retired after `searchable_days`; `node_bytes` is maxmemory."""

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
        """Events per second, on average."""
        return self.events / (self.days * DAY_S)

    @property
    def documents(self) -> dict[str, float]:
        """Searchable documents at the end, by kind."""
        share = min(1.0, self.searchable_days / self.days)
        return {kind: self.events * self.shares[kind] * (share if kind == "observation" else 1) for kind in KINDS}

    @property
    def all_documents(self) -> float:
        """Of all kinds."""
        return sum(self.documents.values())

    @property
    def retired(self) -> float:
        """Observations that are no longer searchable."""
        return self.events - self.all_documents

    def mean(self, by_kind: Mapping[str, Mapping[str, float]], name: str) -> float:
        """Of a figure, over the kinds of events."""
        return sum(self.shares[kind] * by_kind[kind][name] for kind in KINDS)


def embedding_ms(measured: Measured, kind: str = "observation") -> float:
    """Processor milliseconds of the contextual vector of a text: what a worker uses with an embedder, less without."""
    return measured["ms"][kind]["worker"] - measured["ms_without_embedder"][kind]["worker"]


def documents_bytes(load: Load, measured: Measured) -> float:
    """Of documents and listings in Valkey."""
    return sum(load.documents[kind] * measured["bytes"][kind]["documents"] for kind in KINDS)


def _vectors_bytes(load: Load, measured: Measured) -> float:
    return load.rate * DAY_S * min(CACHE_DAYS, load.days) * load.mean(measured["bytes"], "vectors")


def _young_log_bytes(load: Load, measured: Measured) -> float:
    return load.rate * load.peak * ARCHIVE_AFTER_S * load.mean(measured["bytes"], "log")


def _small_bytes(load: Load, _: Measured) -> float:
    ids = min(load.rate * load.peak * DEDUP_S, load.partitions * DEDUP_IDS)
    return load.retired * LEDGER_BYTES + ids * DEDUP_ID_BYTES + FEED_BYTES


def valkey_bytes(load: Load, measured: Measured) -> float:
    """Of all primaries together, with the log in an archive."""
    parts = (documents_bytes, _vectors_bytes, _young_log_bytes, _small_bytes)
    return sum(part(load, measured) for part in parts)


def maxmemory_bytes(load: Load, measured: Measured) -> float:
    """With a second copy of the documents, for a rebuild, and writes still accepted."""
    return (valkey_bytes(load, measured) + documents_bytes(load, measured)) / CEILING


def primaries(load: Load, measured: Measured) -> float:
    """How many of `node_bytes` that is; at least three, so that a majority is left if one fails."""
    return max(3, math.ceil(maxmemory_bytes(load, measured) / load.node_bytes))


def rebuild_hours(load: Load, measured: Measured, workers: int) -> float:
    """The workers' time, a core each, or Valkey's, a core per primary, whichever is more."""
    taken = measured["rebuild_ms"]
    return load.events * max(taken["worker"] / workers, taken["valkey"] / primaries(load, measured)) / HOUR_MS


def embedding_hours(load: Load, measured: Measured, workers: int) -> float:
    """For the vectors of all documents, with so many workers of a core each."""
    return load.all_documents * embedding_ms(measured) / workers / HOUR_MS


def _rows(load: Load, measured: Measured) -> Iterator[tuple[str, str, str, float | None]]:
    """Label, formula, unit and value of each row."""
    peak, alone = load.rate * load.peak, measured["ms_without_embedder"]
    log, valkey = measured["bytes"]["observation"]["archive"], valkey_bytes(load, measured)
    recall_ms, nodes, copies = measured["questions_ms"]["recall"]["api"], primaries(load, measured), 1 + load.replicas

    def cores(milliseconds: float, times: float = 1.0) -> float:
        return peak * times * milliseconds / 1000 / BUSY

    yield "events a second, on average", "events / days", "/s", load.rate
    yield "the same, at the peak", "x peak", "/s", peak
    yield "documents at the end", "events, less retired observations", "", load.all_documents
    yield "Valkey: documents and listings", "documents x bytes, by kind", "B", documents_bytes(load, measured)
    yield "Valkey: vectors kept 30 days", "events of 30 days x bytes", "B", _vectors_bytes(load, measured)
    yield "Valkey: the log, young part", "an hour at the peak x bytes", "B", _young_log_bytes(load, measured)
    small = "retired x 24 B + ids of an hour x 132 B + 64 MiB"
    yield "Valkey: ledgers, dedup windows, feeds", small, "B", _small_bytes(load, measured)
    yield "Valkey, all primaries", "sum", "B", valkey
    maxmemory = "(sum + documents again, for a rebuild) / 0.85"
    yield "`maxmemory`, all primaries", maxmemory, "B", maxmemory_bytes(load, measured)
    yield "primaries of 48 GB", "rounded up, three at least", "", nodes
    yield "servers with replicas", "x (1 + replicas)", "", nodes * copies
    yield "disk: append-only files, all servers", "3 x sum x (1 + replicas)", "B", FILE_TIMES * valkey * copies
    yield "disk: archive of the log", "events x bytes of an observation", "B", load.events * log
    yield "disk: backup of the log elsewhere", "the same", "B", load.events * log
    in_memory = load.events * load.mean(measured["bytes"], "log")
    yield "memory of the log without an archive", "events x bytes", "B", in_memory
    per_core = "peak x ms / 0.6"
    yield "API cores, writes one by one, peak", per_core, "", cores(alone["observation alone"]["api"])
    asked = "peak x questions an event x ms of a recall / 0.6"
    yield "API cores, questions, peak", asked, "", cores(recall_ms, load.questions)
    yield "worker cores, projecting, peak", per_core, "", cores(load.mean(alone, "worker"))
    yield "worker cores, embedding, peak", per_core, "", cores(embedding_ms(measured))
    for count in WORKERS:
        formula = "events x max(worker ms / workers, Valkey ms / primaries)"
        yield f"rebuild, {count} workers", formula, "h", rebuild_hours(load, measured, count)
    for count in WORKERS:
        hours = embedding_hours(load, measured, count)
        yield f"embedding all again, {count} workers", "documents x ms / workers", "h", hours
    index, engine = load.all_documents * INDEX_BYTES, load.engine_bytes
    yield "index in **each** API process, embedded", f"documents x {INDEX_BYTES:,} B", "B", index
    snapshots = 2 * load.all_documents * measured["snapshot_bytes"]
    yield "snapshots of it, old and new", "2 x documents x bytes", "B", snapshots
    on_engine = None if engine is None else load.all_documents * engine
    yield "index on a search engine, once", "documents x bytes in the engine", "B", on_engine


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit, to three significant digits; bytes as MB, GB or TB."""
    if value is None:
        return "not measured"
    if unit == "B":
        size = next((it for it in (12, 9) if value >= 10**it), 6)
        return f"{written(value / 10**size)} {({6: 'MB', 9: 'GB', 12: 'TB'})[size]}"
    return written(value, unit)


def plan(loads: Mapping[str, Load], measured: Measured) -> str:
    """The table of the plan: a row per figure, a column per load."""
    columns = [list(_rows(load, measured)) for load in loads.values()]
    cells = [[row[0][0], row[0][1], *(amount(it[3], it[2]) for it in row)] for row in zip(*columns, strict=True)]
    return _table([["figure", "formula", *loads], *cells])


def sizes(figures: Mapping[str, Measured]) -> str:
    """The table of what was measured: a row per figure, a column per set of texts."""
    lines = [["measured", *figures]]
    for name, unit, path in _sizes_rows():
        values = [_value(it, path) for it in figures.values()]
        if any(value is not None for value in values):
            lines.append([name, *("" if value is None else f"{written(value)} {unit}" for value in values)])
    for kind in KINDS:
        lines.append([f"{kind}: embedding", *(f"{written(embedding_ms(it, kind))} ms" for it in figures.values())])
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def _sizes_rows() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Label, unit and path of each figure."""
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


def _value(measured: Any, path: Sequence[str]) -> float | None:
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
    """The two pages with these figures."""
    made = {SIZES: sizes(figures), PLAN: plan(loads(load), figures[BASIS])}
    return {path: replaced(path.read_text(), table) for path, table in made.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the plan, or write both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in Load()._asdict().items():
        kind = int if Load.__annotations__[name] is int else float
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default)
    parser.add_argument("--write", action="store_true")
    options = vars(parser.parse_args(arguments))
    write, figures = options.pop("write"), json.loads(FIGURES.read_text())
    load = Load(**options)
    print(plan(loads(load), figures[BASIS]))
    if write:
        for path, text in pages(figures, load).items():
            path.write_text(text)


if __name__ == "__main__":
    main()
