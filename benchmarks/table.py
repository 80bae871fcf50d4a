"""The table of all figures: what was measured, what is wanted, and the raw limit of the same run. Pure.

`ROWS` says which figure of which benchmark each row is. Results are what `benchmarks.all` writes: `{machine, seed, ...,
results: {benchmark: its figures}}`; a row whose benchmark was left out, or failed, is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEADS = ("figure", "measured", "wanted", "raw limit of the same run", "to raw")

Results = Mapping[str, Any]


class Row(NamedTuple):
    """Where a figure is found, and what is wanted of it: at most, or at least. `raw` is what it is put beside."""

    figure: str
    benchmark: str
    key: str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    raw: str = ""
    raw_name: str = ""


class Cell(NamedTuple):
    """A row with its figures. `reached`: how much of what is wanted was reached, 1 and more is met; None: no bar."""

    row: Row
    measured: float
    raw: float | None
    reached: float | None


ROWS = (
    Row("found by meaning when all is projected, 3,000/s", "meaning", "found_by_text", at_least=1.0),
    Row("contextual backlog shrinks so long after the load", "meaning", "shrinking_after_s", "s", at_most=1.0),
    Row("projected, one worker beside the API", "backlog", "projected_per_s", "/s", at_least=8_000,
        raw="projection.events_per_s", raw_name="the worker alone"),
    Row("rebuilt, mixed events, documents and index", "rebuild_rate", "with_index_per_s", "/s", at_least=10_000,
        raw="raw_read_per_s", raw_name="XRANGE"),
    Row("the same, until readers are switched", "rebuild_rate", "rebuilt_per_s", "/s",
        raw="raw_read_per_s", raw_name="XRANGE"),
    Row("contextual embedding to raw onnxruntime", "embedding", "to_raw", at_least=0.85),
    Row("contextual embedding", "embedding", "embedded_per_s", "/s", raw="raw_per_s", raw_name="onnxruntime"),
    Row("recall, 1 client, new question, p50", "recall", "new_p50_ms", "ms", at_most=9,
        raw="hello_p50_ms", raw_name="uvicorn hello"),
    Row("the same, p99 to p50", "recall", "new_p99_to_p50", at_most=3),
    Row("recall, 1 client, cached vector, p50", "recall", "cached_p50_ms", "ms", at_most=4,
        raw="hello_p50_ms", raw_name="uvicorn hello"),
    Row("the same, p99 to p50", "recall", "cached_p99_to_p50", at_most=3),
    Row("recall, 8 clients, new questions", "recall", "eight_new_per_s", "/s", at_least=200,
        raw="eight_hello_per_s", raw_name="uvicorn hello"),
    Row("recall, 8 clients, repeated questions", "recall", "eight_cached_per_s", "/s", at_least=450,
        raw="eight_hello_per_s", raw_name="uvicorn hello"),
    Row("recall p99, 2,000 events/s written, to at rest", "recall", "writing_to_idle", at_most=3),
    Row("written meanwhile", "recall", "written_per_s", "/s", at_least=1_900),
    Row("recall p50 at ten times the documents, to that", "recall_large", "new_p50_ms", at_most=2,
        raw="recall.new_p50_ms", raw_name="p50 of the smaller, ms"),
    Row("memex's load, 50 users", "memex", "memex_per_s", "/s", at_least=750,
        raw="hello_per_s", raw_name="uvicorn hello"),
    Row("the same, p99", "memex", "memex_p99_ms", "ms", at_most=60, raw="hello_p99_ms", raw_name="uvicorn hello"),
    Row("single writes, 64 connections", "ingest", "single_per_s", "/s", at_least=5_000,
        raw="hello_per_s", raw_name="uvicorn hello"),
    Row("batched writes", "ingest", "batch_per_s", "/s", raw="xadd_per_s", raw_name="XADD"),
    Row("batched writes to raw XADD", "ingest", "batch_to_xadd", at_least=0.5),
    Row("memory a document, API", "footprint", "api_bytes", "B", at_most=2_200),
    Row("memory a document, Valkey with archive", "footprint", "valkey_bytes", "B", at_most=2_000),
    Row("ready with a snapshot", "footprint", "start_with_snapshot_s", "s", at_most=3.0),
    Row("second start", "footprint", "second_start_s", "s", at_most=2.5),
    Row("LoCoMo recall@5", "locomo", "recall.overall.recall@5", "%", at_least=75.0),
    Row("LoCoMo recall@10", "locomo", "recall.overall.recall@10", "%", at_least=83.0),
    Row("agent work recall@10", "agentwork", "recall.overall.recall@10", "%", at_least=77.0),
    Row("BEAM recall@10, categories with a fact to find", "beam", "recall.overall.recall@10", "%", at_least=72.2),
    Row("a write is findable by its text, p50 at 300/s", "freshness", "p50_ms", "ms", at_most=100),
    Row("the same, p99", "freshness", "p99_ms", "ms"),
    Row("viewer, first contentful paint, p50", "viewer", "first_paint_p50_ms", "ms", at_most=1_000),
    Row("viewer, graph of 2,000 nodes while one is dragged, frame p50", "viewer", "drag_node_frame_p50_ms", "ms",
        at_most=16.7),
    Row("the same, p95", "viewer", "drag_node_frame_p95_ms", "ms"),
    Row("viewer shows what was written, p95", "viewer", "live_p95_ms", "ms", at_most=1_000),
)  # fmt: skip


def cells(results: Results) -> Iterator[Cell]:
    """The rows that were measured."""
    for row in ROWS:
        measured = _number(results.get(row.benchmark, {}), row.key)
        if measured is None:
            if row.benchmark in results and row.key == "shrinking_after_s":
                measured = float("inf")
            else:
                continue
        raw = _raw(results, row)
        if row.benchmark == "recall_large":  # the bar is on the ratio
            if raw is None:
                continue
            yield Cell(row, round(measured / raw, 2), raw, _reached(row, measured / raw))
            continue
        yield Cell(row, measured, raw, _reached(row, measured))


def _raw(results: Results, row: Row) -> float | None:
    benchmark, dot, key = row.raw.partition(".")
    return _number(results.get(benchmark, {}), key) if dot else _number(results[row.benchmark], row.raw)


def _number(figures: Any, key: str) -> float | None:
    """The number that stands there, by names joined with dots; None where there is none."""
    for name in key.split("."):
        figures = cast("Results", figures).get(name) if isinstance(figures, Mapping) else None
    return float(figures) if isinstance(figures, int | float) else None


def _reached(row: Row, measured: float) -> float | None:
    if row.at_least is not None:
        return measured / row.at_least
    if row.at_most is not None:
        return row.at_most / measured if measured else float("inf")
    return None


def written(value: float, unit: str = "") -> str:
    """A figure as it is read: three or four digits that count."""
    if value == float("inf"):
        return "never"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text}{unit}" if unit in ("", "/s", "%") else f"{text} {unit}"


def texts(cell: Cell) -> tuple[str, str, str, str, str]:
    """A row of the table."""
    row = cell.row
    wanted = f">= {written(row.at_least, row.unit)}" if row.at_least is not None else ""
    wanted = f"<= {written(row.at_most, row.unit)}" if row.at_most is not None else wanted
    met = "" if cell.reached is None or cell.reached >= 1 else " (missed)"
    raw = ratio = ""
    if cell.raw is not None:
        raw = f"{row.raw_name} {written(cell.raw, row.unit)}"
        ratio = written(cell.measured / cell.raw) if cell.raw and row.benchmark != "recall_large" else ""
    return row.figure, written(cell.measured, row.unit) + met, wanted, raw, ratio


def markdown(run: Results) -> str:
    """The table of a run for a page, with its machine above it."""
    machine = run["machine"]
    about = [
        f"{run['taken']}, {run['commit']}{', shortened run (--quick)' * run['quick']}; seed {run['seed']};",
        f"{machine['cores']} x {machine['processor']}, {machine['memory_gib']} GiB, {machine['system']},",
        f"Python {machine['python']}; load before the run {machine['load']}.",
    ]
    lines = [" ".join(about), "", _line(HEADS), "|---|---|---|---|---|"]
    lines += [_line(texts(cell)) for cell in cells(run["results"])]
    failed = [f"`{name}` failed: {reason}" for name, reason in run["failed"].items()]
    return "\n".join([*lines, *([""] if failed else []), *failed])


def _line(parts: tuple[str, ...]) -> str:
    return f"| {' | '.join(parts)} |"


def replaced(page: str, run: Results, images: Sequence[str] = ()) -> str:
    """The page with the run's table, and images below it, between its markers. Raises ValueError without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} and {END}")
    parts = "\n\n".join([markdown(run), *images])
    return f"{before}{BEGIN}\n\n{parts}\n\n{END}{after}"
