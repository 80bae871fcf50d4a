"""Does remembering stay fast in a project with 100,000 memories, and how long does a context take?

Question 1: is `remember` at `--memories` memories in a project no slower than 1.5 times what it is at 1,000? Both
projects are in the same server; the timed writes alternate between them, so that drift of the machine hits both. A
timed write counts until it is projected: superseding happens there.

Question 2: how long does `POST /v1/context` take (p50) in a project with `--lessons` lessons and as many memories?

    python -m benchmarks.memories [--memories 100000] [--rounds 7] [--url http://127.0.0.1:3111]

The server should run without an embedder (`MNEMOLOG_EMBEDDER=none`) for the first question: vectors follow later and
would only take processor time from it. Texts are made of words as frequent as words are (Zipf), longer where rarer,
with a tenth of them about the same few long words, as the memories of one project are. Seed 7.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx

VOCABULARY = 30_000
TOPICS = 40
"""Long words that many of a project's memories share."""
BATCH = 1_000
TIMED = 200
"""Writes a round and project."""
WAIT_S = 600.0
CONTEXTS = 100


class Texts:
    """Sentences of 8 to 24 words; the same seed gives the same sentences."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        words = random.Random(1)
        self._words = [
            "".join(words.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(min(14, 2 + rank.bit_length() // 2 + 1)))
            for rank in range(1, VOCABULARY + 1)
        ]
        self._weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
        self._topics = ["".join(words.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(13)) for _ in range(TOPICS)]

    def one(self) -> str:
        """A sentence."""
        picked = self._random.choices(self._words, self._weights, k=self._random.randint(8, 24))
        if self._random.random() < 0.5:
            picked += self._random.sample(self._topics, 2)
        self._random.shuffle(picked)
        return " ".join(picked)


def main() -> int:
    """Run both questions; exit code 1 when a bar is missed."""
    options = _options()
    with httpx.Client(base_url=options.url, timeout=60) as http:
        texts = Texts(options.seed)
        run = f"bench-{int(time.time())}"
        small, large, known = f"{run}-small", f"{run}-large", f"{run}-context"
        _fill(http, small, 1_000, texts)
        _fill(http, large, options.memories, texts)
        ratio = _compare(http, small, large, options.rounds, texts)
        _fill(http, known, options.lessons, texts)
        _fill(http, known, options.lessons, texts, kind="lesson")
        p50 = _contexts(http, known, texts)
    report = {"remember_ratio": round(ratio, 3), "context_p50_ms": round(p50, 2)}
    print(json.dumps(report))
    return 0 if ratio <= 1.5 and p50 <= 20 else 1


def _compare(http: httpx.Client, small: str, large: str, rounds: int, texts: Texts) -> float:
    """How much longer a remember takes in the large project: the median over rounds of the ratio."""
    ratios: list[float] = []
    for number in range(rounds):
        order = (small, large) if number % 2 else (large, small)
        seconds = {project: _timed(http, project, texts) for project in order}
        ratios.append(seconds[large] / seconds[small])
        print(
            f"round {number + 1}: {1000 * seconds[small] / TIMED:.2f} ms a memory at 1,000, "
            f"{1000 * seconds[large] / TIMED:.2f} ms in the large project, ratio {ratios[-1]:.2f}",
            file=sys.stderr,
        )
    return statistics.median(ratios)


def _timed(http: httpx.Client, project: str, texts: Texts) -> float:
    """Seconds for TIMED memories, written in one batch, to be projected."""
    batch = [_command(project, "remember", texts) for _ in range(TIMED)]
    started = time.perf_counter()
    position = _post(http, batch)
    _wait(http, project, position)
    return time.perf_counter() - started


def _contexts(http: httpx.Client, project: str, texts: Texts) -> float:
    """The median of CONTEXTS contexts, in milliseconds, each for another query."""
    taken: list[float] = []
    for _ in range(CONTEXTS):
        asked = {"project": project, "query": " ".join(texts.one().split()[:8]), "token_budget": 2000}
        started = time.perf_counter()
        http.post("/v1/context", json=asked).raise_for_status()
        taken.append(1000 * (time.perf_counter() - started))
    taken.sort()
    print(
        f"context: p50 {statistics.median(taken):.1f} ms, p95 {taken[int(0.95 * len(taken))]:.1f} ms", file=sys.stderr
    )
    return statistics.median(taken)


def _fill(http: httpx.Client, project: str, count: int, texts: Texts, kind: str = "remember") -> None:
    started, position = time.perf_counter(), ""
    for size in _sizes(count):
        position = _post(http, [_command(project, kind, texts) for _ in range(size)])
    _wait(http, project, position)
    took = time.perf_counter() - started
    print(f"{project}: {count:,} times {kind}, projected in {took:.1f} s ({count / took:,.0f}/s)", file=sys.stderr)


def _sizes(count: int) -> Iterator[int]:
    for start in range(0, count, BATCH):
        yield min(BATCH, count - start)


def _command(project: str, kind: str, texts: Texts) -> dict[str, Any]:
    return {"type": kind, "project": project, "agent_id": "bench", "content": texts.one()}


def _post(http: httpx.Client, batch: list[dict[str, Any]]) -> str:
    answer = http.post("/v1/events", json=batch)
    answer.raise_for_status()
    return answer.json()["position"]


def _wait(http: httpx.Client, project: str, position: str) -> None:
    """Wait until a position is projected and searchable."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        answer = http.get("/v1/memories", params={"project": project, "limit": 1, "after": position})
        if answer.status_code != 503:
            answer.raise_for_status()
            return
    raise TimeoutError(f"{position} was not projected within {WAIT_S:.0f} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:3111")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--lessons", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
