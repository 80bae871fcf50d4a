"""The plan is arithmetic: its figures by hand, and the two pages as the program writes them."""

import json
from typing import Any

import pytest

from benchmarks.plan import (
    BASIS,
    FIGURES,
    PLAN,
    SIZES,
    Load,
    amount,
    documents_bytes,
    embedding_hours,
    loads,
    main,
    maxmemory_bytes,
    pages,
    plan,
    primaries,
    rebuild_hours,
    replaced,
    valkey_bytes,
)

KINDS = ("observation", "memory", "lesson")
MEASURED: dict[str, Any] = {
    "ms": {kind: {"api": 1.0, "worker": 22.0, "valkey": 0.5} for kind in KINDS},
    "ms_without_embedder": {kind: {"api": 0.5, "worker": 2.0, "valkey": 0.25} for kind in KINDS}
    | {"observation alone": {"api": 1.0, "worker": 2.0, "valkey": 0.5}},
    "bytes": {
        kind: {"log": 500.0, "documents": size, "vectors": 1_000.0, "archive": 100.0, "feed": 1.0, "file": 1.0}
        for kind, size in zip(KINDS, (1_000.0, 4_000.0, 2_000.0), strict=True)
    },
    "snapshot_bytes": 2_000.0,
    "questions_ms": {"recall": {"api": 10.0, "valkey": 0.5}},
    "rebuild_ms": {"api": 0.0, "worker": 0.36, "valkey": 0.072},
}
LOAD = Load(events=1e6, days=100, memories=0.1, lessons=0.1, node_bytes=1e9)


def rows(load: Load) -> dict[str, str]:
    """The last column of the table, by figure."""
    lines = plan({"it": load}, MEASURED).splitlines()[2:]
    return {cells[1]: cells[3] for cells in ([part.strip() for part in line.split("|")] for line in lines)}


def test_documents_take_what_each_kind_takes():
    assert documents_bytes(LOAD, MEASURED) == pytest.approx(0.8e6 * 1_000 + 0.1e6 * 4_000 + 0.1e6 * 2_000)


def test_observations_that_are_retired_leave_a_ledger():
    retiring = LOAD._replace(searchable_days=25)
    assert retiring.all_documents == pytest.approx(0.2e6 + 0.2e6)
    assert retiring.retired == pytest.approx(0.6e6)
    less = valkey_bytes(LOAD, MEASURED) - valkey_bytes(retiring, MEASURED)
    assert less == pytest.approx(0.6e6 * (1_000 - 24))


def test_a_rebuild_needs_the_documents_twice_below_the_ceiling():
    assert maxmemory_bytes(LOAD, MEASURED) == pytest.approx(
        (valkey_bytes(LOAD, MEASURED) + documents_bytes(LOAD, MEASURED)) / 0.85
    )


def test_there_are_three_primaries_at_least():
    assert primaries(LOAD, MEASURED) == 4
    assert primaries(LOAD._replace(events=1), MEASURED) == 3


def test_a_rebuild_takes_its_workers_time_until_valkey_is_the_limit():
    assert rebuild_hours(LOAD, MEASURED, 1) == pytest.approx(0.1)
    assert rebuild_hours(LOAD, MEASURED, 10) == pytest.approx(0.01)
    assert rebuild_hours(LOAD, MEASURED, 1_000) == pytest.approx(0.005)  # 0.072 ms on each of 4 primaries


def test_embedding_is_what_a_worker_takes_more_with_an_embedder():
    assert embedding_hours(LOAD, MEASURED, 2) == pytest.approx(1e6 * 20 / 2 / 3_600_000)


def test_the_table_says_what_the_formulas_come_to():
    told = rows(LOAD._replace(events=86.4e6, searchable_days=100))
    assert told["events a second, on average"] == "10/s"
    assert told["the same, at the peak"] == "100/s"
    assert told["API cores, writes one by one, peak"] == written_cores(100 * 0.001)
    assert told["API cores, questions, peak"] == written_cores(100 * 0.1 * 0.010)
    assert told["index in **each** API process, embedded"] == "178 GB"
    assert told["disk: archive of the log"] == "8.64 GB"


def written_cores(busy: float) -> str:
    """Cores that are 0.6 busy with it."""
    return f"{busy / 0.6:.3g}"


def test_an_engine_that_was_not_measured_is_said_to_be_none():
    assert rows(LOAD._replace(engine_bytes=None))["index on a search engine, once"] == "not measured"
    assert rows(LOAD._replace(engine_bytes=5_000))["index on a search engine, once"] == "5 GB"


def test_an_amount_has_three_digits_and_a_unit():
    assert [amount(size, "B") for size in (12e6, 999e6, 1.5e9, 2e12)] == ["12 MB", "999 MB", "1.5 GB", "2 TB"]


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="marker"):
        replaced("a page", "a table")


@pytest.mark.parametrize("path", [SIZES, PLAN], ids=lambda path: path.stem)
def test_a_page_has_the_table_that_the_program_makes(path: Any):
    """After another measurement: `python -m benchmarks.plan --write`."""
    assert pages(json.loads(FIGURES.read_text()), Load())[path] == path.read_text()


def test_the_program_prints_the_plan(capsys: pytest.CaptureFixture[str]):
    main(["--events", "1e9", "--engine-bytes", "4000"])
    figures = json.loads(FIGURES.read_text())
    assert capsys.readouterr().out.strip() == plan(loads(Load(events=1e9, engine_bytes=4_000)), figures[BASIS])
