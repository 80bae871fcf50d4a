"""Does recall find the right turn? Conversations and agents' work through the public HTTP API of a running server.

    python -m benchmarks.relevance --data PATH [--conversations N] [--url http://127.0.0.1:3111]

Metric: evidence-turn recall@k. For each question that has evidence, the share of its evidence turns among the first k
recalled turns of that conversation; then the mean over questions. Every turn is one observation, every conversation a
project. Data is JSON, and no part of this project: a list of `{sample_id, sessions: [{session, date_time, turns}], qa:
[{question, evidence, category}]}`. A turn is `{id, kind, actor, text}`, with the session's `agent`, or, in LoCoMo
(Maharana et al., ACL 2024, CC BY-NC 4.0), `{dia_id, speaker, text, blip_caption?}`, whose categories 1 to 4 are asked.
Categories whose evidence is most of a conversation (BEAM has four) are told apart, and are not in the overall figure.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.driving import Pool, fill, percentile, settled

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""LoCoMo's numbers; its fifth has no evidence to find."""
APART = frozenset(("event_ordering", "instruction_following", "summarization", "preference_following"))
CUTS = (5, 10, 20)
OVERALL = "overall"
TURN_S = 30
"""Between two turns where they have no times; LoCoMo's are a second apart, so that the date holds."""


class Question(NamedTuple):
    """What is asked of one conversation; `evidence` are ids of its turns."""

    sample: str
    text: str
    category: str
    evidence: frozenset[str]


def events_of(conversation: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """One observation a turn: its time the session's date plus its place in it."""
    sample, events = conversation["sample_id"], list[dict[str, Any]]()
    for session in conversation["sessions"]:
        began = parse_date(session["date_time"])
        for place, turn in enumerate(session["turns"]):
            said = _chat(turn) if "dia_id" in turn else _work(turn, session)
            name = str(session["session"])
            events.append(
                {
                    "type": "observe",
                    "event_id": f"{run}:{sample}:{_id(turn)}",
                    "project": f"{run}:{sample}",
                    "session_id": f"{sample}:{name}" if "dia_id" in turn else f"{run}:{name}",
                    "occurred_at": (began + timedelta(seconds=place * (1 if "dia_id" in turn else TURN_S))).isoformat(),
                    "metadata": {"turn": _id(turn)},
                    **said,
                }
            )
    return events


def _id(turn: dict[str, Any]) -> str:
    return turn["dia_id"] if "dia_id" in turn else turn["id"]


def _chat(turn: dict[str, Any]) -> dict[str, str]:
    caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return {"agent_id": turn["speaker"], "content": f"{turn['speaker']}: {turn['text']}{caption}"}


def _work(turn: dict[str, Any], session: dict[str, Any]) -> dict[str, str]:
    return {"agent_id": session["agent"], "kind": turn["kind"], "content": turn["text"]}


def parse_date(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` and ISO 8601, as UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y")
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def questions(conversation: dict[str, Any]) -> list[Question]:
    """What is asked; ids that name no turn are dropped, and questions left without any."""
    known = {_id(turn) for session in conversation["sessions"] for turn in session["turns"]}
    found: list[Question] = []
    for item in conversation["qa"]:
        category = item["category"]
        name = CATEGORIES.get(category, "") if isinstance(category, int) else category
        evidence = frozenset(part for text in item["evidence"] for part in re.split(r"[;,\s]+", text)) & known
        if name and evidence:
            found.append(Question(conversation["sample_id"], item["question"], name, evidence))
    return found


async def ask(
    pool: Pool, run: str, asked: list[Question], options: dict[str, Any]
) -> tuple[list[dict[int, float]], list[float]]:
    """For each question, recall at every cut; and the milliseconds of every request."""
    shares, times = list[dict[int, float]](), list[float]()
    for one in track(asked, "asking", console=Console(stderr=True), disable=not sys.stderr.isatty()):
        body = {"query": one.text, "project": f"{run}:{one.sample}", "limit": max(CUTS), **options}
        began = time.perf_counter()
        results = (await pool.post("/v1/recall", body))["results"]
        times.append((time.perf_counter() - began) * 1000)
        turns = [result["metadata"]["turn"] for result in results]
        shares.append({k: len(one.evidence & set(turns[:k])) / len(one.evidence) for k in CUTS})
    return shares, times


def figures_of(asked: list[Question], shares: list[dict[int, float]]) -> dict[str, dict[str, float]]:
    """Recall at every cut in percent: overall, by conversation where they are few, by category."""
    groups: defaultdict[str, list[dict[int, float]]] = defaultdict(list)
    for question, share in zip(asked, shares, strict=True):
        groups[question.category].append(share)
        if question.category not in APART:
            groups[OVERALL].append(share)
            groups[question.sample].append(share)
    samples = sorted({question.sample for question in asked} & set(groups))
    categories = sorted({question.category for question in asked}, key=lambda name: (name in APART, name))
    return {
        name: {"questions": len(groups[name])}
        | {f"recall@{k}": round(100 * fmean(share[k] for share in groups[name]), 2) for k in CUTS}
        for name in (OVERALL, *samples, *categories)
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Load, wait, ask."""
    conversations = json.loads(options.data.read_bytes())[: options.conversations]
    run, pool = f"relevance-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    turns = await fill(pool, (event for one in conversations for event in events_of(one, run)), batch=200, clients=1)
    await settled(pool, embedded=not options.now)
    await asyncio.sleep(1.0)  # the last vectors are on their way through the feed
    asked = [question for one in conversations for question in questions(one)]
    shares, times = await ask(pool, run, asked, {"mode": options.mode} if options.mode else {})
    latency = {f"p{share}_ms": round(percentile(times, share / 100), 1) for share in (50, 99)}
    return {"data": options.data.stem, "turns": turns, **latency, "recall": figures_of(asked, shares)}


def show(figures: dict[str, Any]) -> None:
    """Print recall at every cut."""
    table = Table("", "questions", *(f"recall@{k}" for k in CUTS), title=f"{figures['data']}, evidence turns")
    for name, row in figures["recall"].items():
        table.add_row(name, *(str(value) for value in row.values()))
    Console().print(table)
    print(f"recall requests: p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms, one at a time")


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--mode", choices=("hybrid", "lexical", "vector"))
    parser.add_argument("--conversations", type=int, help="only the first so many")
    parser.add_argument(
        "--now", action="store_true", help="ask as soon as all is projected, without contextual vectors"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    uvloop.run(main())
