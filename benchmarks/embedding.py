"""How near is contextual embedding to raw onnxruntime? The same texts, the same model, all cores.

    python -m benchmarks.embedding --redis-url unix:///DATA/valkey/valkey.sock [--texts 1500] [--rounds 3] [--url URL]

Observations are written; once they are projected nothing else is to be done, and the worker's queue of texts without
a vector empties. That is timed, then, with the queue empty, raw onnxruntime: the texts as the worker had them
(compressed and in parts that fit the model's window), tokenized before, in groups of like length, by one session of
one thread for each core, or one session of as many threads, whichever is faster, at the worker's priority. Rounds
alternate. The worker also reads documents, tokenizes, writes vectors and announces them; raw onnxruntime does nothing
of it.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np
import uvloop

from benchmarks.corpus import observation
from benchmarks.driving import Pool, behind, fill, settled
from benchmarks.key_families import family_of
from ingest.ids import DocumentId
from ingest.platform.connections import Client, connect
from ingest.platform.processes import give_way
from ingest.platform.settings import from_environment
from projections.documents.document import Searched, decode, searchable_text
from projections.embedding.model_files import MODEL_FILE, TOKENIZER_FILE, read_manifest
from projections.embedding.onnx import load_session, load_tokenizer, runs
from projections.vectors.embedder import chunk

LOOK_EVERY_S = 0.05
CORES = len(os.sched_getaffinity(0))


async def emptied(pool: Pool) -> tuple[float, float]:
    """Wait until the queue is empty; vectors made while it was looked at, and the seconds of that."""
    _, first = await behind(pool)
    began, waiting = time.perf_counter(), first
    while waiting:
        await asyncio.sleep(LOOK_EVERY_S)
        _, waiting = await behind(pool)
    return first, time.perf_counter() - began


async def texts_of(redis: Client, run: str) -> list[str]:
    """What was embedded of a run's observations."""
    names = [key async for key in redis.scan_iter(match="*doc:obs_*", count=2_000)]
    found = list[str]()
    for key in names:
        assert family_of(key.decode()) == "doc obs"
        document = decode(DocumentId(key.decode().rpartition(":")[2]), await redis.get(key.decode()))
        if isinstance(document, Searched) and str(getattr(document, "session_id", "")).startswith(run):
            found += chunk(searchable_text(document))
    return found


def groups_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The model's input for the texts, in groups of like length."""
    folder = from_environment(os.environ).model_directory
    tokenizer = load_tokenizer(folder / TOKENIZER_FILE, read_manifest(folder).max_tokens)
    rows = [tokenizer.encode(text).ids for text in texts]
    groups: list[dict[str, Any]] = []
    for group in runs([len(row) for row in rows]):
        ids = np.zeros((len(group), max(len(rows[row]) for row in group)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(group):
            ids[place, : len(rows[row])] = rows[row]
            mask[place, : len(rows[row])] = 1
        groups.append({"input_ids": ids, "attention_mask": mask})
    return groups


def raw(groups: Sequence[dict[str, Any]], sessions: int, threads: int) -> float:
    """Seconds of all groups, divided among so many sessions of so many threads; loading the model does not count."""
    path = from_environment(os.environ).model_directory / MODEL_FILE
    waiting = iter(sorted(groups, key=lambda group: -group["input_ids"].size))

    def load(_: int) -> Any:
        session = load_session(path, "default", threads)
        session.run(None, groups[0])
        return session

    def work(session: Any) -> None:
        for group in waiting:
            session.run(None, group)

    with ThreadPoolExecutor(sessions, initializer=give_way) as pool:  # as the worker does
        loaded = list(pool.map(load, range(sessions)))  # by these threads: those of a session inherit the priority
        began = time.perf_counter()
        list(pool.map(work, loaded))
        return time.perf_counter() - began


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Alternate the worker and raw onnxruntime."""
    pool, redis = Pool(options.url, options.secret), connect(options.redis_url)
    of_worker, of_raw, texts = list[float](), list[float](), 0
    for number in range(options.rounds):
        run, first = f"embed-{time.time_ns():x}", number * options.texts
        await fill(pool, (observation(run, first + n) for n in range(options.texts)))
        await settled(pool)
        made, seconds = await emptied(pool)
        await settled(pool, embedded=True)
        found = await texts_of(redis, run)
        of_worker.append(made / seconds)
        groups = groups_of(found)
        best = min(raw(groups, CORES, 1), raw(groups, 1, CORES))
        of_raw.append(options.texts / best)
        texts += len(found)
    await redis.aclose()
    return {
        "documents": options.texts * options.rounds,
        "texts": texts,
        "cores": CORES,
        "embedded_per_s": round(median(of_worker), 1),
        "raw_per_s": round(median(of_raw), 1),
        "to_raw": round(median(w / r for w, r in zip(of_worker, of_raw, strict=True)), 3),
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--texts", type=int, default=1_500, help="observations of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>16}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
