"""Does recall find the right turn? LoCoMo's conversations through the public HTTP API of a running server.

    python -m benchmarks.locomo --data PATH [--url http://127.0.0.1:3111]

Metric: evidence-turn recall@k. For each question of categories 1-4 that has evidence, the share of its evidence turns
among the first k recalled turns of that conversation; then the mean over questions. The data (Maharana et al., ACL
2024) is CC BY-NC 4.0 and no part of this project.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
CUTS = (5, 10, 20)


def conversation_events(conversation: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """One observation a turn: its session is `<sample_id>:<session>`, its time the session's date plus its place."""
    events: list[dict[str, Any]] = []
    for session in conversation["sessions"]:
        began = parse_date(session["date_time"])
        for place, turn in enumerate(session["turns"]):
            caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            events.append(
                {
                    "type": "observe",
                    "event_id": f"{run}:{conversation['sample_id']}:{turn['dia_id']}",
                    "project": f"{run}:{conversation['sample_id']}",
                    "session_id": f"{conversation['sample_id']}:{session['session']}",
                    "agent_id": turn["speaker"],
                    "content": f"{turn['speaker']}: {turn['text']}{caption}",
                    "occurred_at": (began + timedelta(seconds=place)).isoformat(),
                    "metadata": {"dia_id": turn["dia_id"]},
                }
            )
    return events


def parse_date(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` and ISO 8601, as UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y")
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def questions(conversation: dict[str, Any]) -> list[tuple[str, int, set[str]]]:
    """`(question, category, evidence turns)`; ids that name no turn are dropped, and questions left without any."""
    known = {turn["dia_id"] for session in conversation["sessions"] for turn in session["turns"]}
    found: list[tuple[str, int, set[str]]] = []
    for item in conversation["qa"]:
        evidence = {part for text in item["evidence"] for part in re.split(r"[;,\s]+", text)} & known
        if item["category"] in CATEGORIES and evidence:
            found.append((item["question"], item["category"], evidence))
    return found


async def load(client: httpx.AsyncClient, conversations: list[dict[str, Any]], run: str) -> str:
    """Store every turn; returns the token that covers them all."""
    tokens: list[str] = []
    for conversation in conversations:
        events = conversation_events(conversation, run)
        for start in range(0, len(events), 200):
            answer = await client.post("/v1/events", json=events[start : start + 200])
            answer.raise_for_status()
            if answer.json()["rejected"]:
                raise SystemExit(f"rejected: {answer.json()['rejected'][:3]}")
            tokens.append(answer.json()["position"])
    return ",".join(tokens)


async def wait_until_embedded(client: httpx.AsyncClient, token: str, timeout_s: float = 900.0) -> None:
    """Wait until every turn is searchable and has its vector."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        partitions = (await client.get("/v1/admin/projections")).json()["partitions"]
        if not any(row["to_embed"] or row["lag"] for row in partitions):
            answer = await client.post("/v1/recall", json={"query": "ready", "after": token, "limit": 1})
            if answer.status_code == 200:
                await asyncio.sleep(1.0)  # the last vectors are on their way through the feed
                return
        await asyncio.sleep(0.5)
    raise SystemExit("the server did not finish embedding in time")


async def measure(
    client: httpx.AsyncClient, conversations: list[dict[str, Any]], run: str, options: dict[str, Any]
) -> tuple[dict[int, list[dict[int, float]]], list[float]]:
    """For each category, for each question, recall at every cut; and the milliseconds of every request."""
    shares: dict[int, list[dict[int, float]]] = defaultdict(list)
    times: list[float] = []
    asked = [
        (conversation["sample_id"], *question) for conversation in conversations for question in questions(conversation)
    ]
    for sample, question, category, evidence in track(
        asked, "asking", console=Console(stderr=True), disable=not sys.stderr.isatty()
    ):
        body = {"query": question, "project": f"{run}:{sample}", "limit": max(CUTS), **options}
        began = time.perf_counter()
        answer = await client.post("/v1/recall", json=body)
        times.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
        turns = [result["metadata"]["dia_id"] for result in answer.json()["results"]]
        shares[category].append({k: len(evidence & set(turns[:k])) / len(evidence) for k in CUTS})
    return shares, times


def report(shares: dict[int, list[dict[int, float]]], times: list[float], *, as_json: bool) -> None:
    """Print recall at every cut, overall and by category."""
    everything = [row for rows in shares.values() for row in rows]
    lines = [("overall", everything), *((CATEGORIES[c], shares[c]) for c in sorted(shares))]
    figures = {
        name: {
            "questions": len(rows),
            **{f"recall@{k}": round(100 * statistics.fmean(r[k] for r in rows), 2) for k in CUTS},
        }
        for name, rows in lines
    }
    ordered = sorted(times)
    latency = {"p50_ms": round(ordered[len(ordered) // 2], 1), "p99_ms": round(ordered[int(len(ordered) * 0.99)], 1)}
    if as_json:
        print(json.dumps({"recall": figures, "latency": latency}))
        return
    table = Table("category", "questions", *(f"recall@{k}" for k in CUTS), title="LoCoMo, evidence turns")
    for name, row in figures.items():
        table.add_row(name, *(str(value) for value in row.values()))
    console = Console()
    console.print(table)
    console.print(f"recall requests: p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms, one at a time")


async def main() -> None:
    """Load, wait, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--mode", choices=("hybrid", "lexical", "vector"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    conversations = json.loads(options.data.read_bytes())
    secret = os.environ.get("MNEMOLOG_SECRET")
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    run = f"locomo-{datetime.now(UTC):%Y%m%d%H%M%S}"
    async with httpx.AsyncClient(base_url=options.url, headers=headers, timeout=30) as client:
        token = await load(client, conversations, run)
        await wait_until_embedded(client, token)
        shares, times = await measure(client, conversations, run, {"mode": options.mode} if options.mode else {})
    report(shares, times, as_json=options.json)


if __name__ == "__main__":
    asyncio.run(main())
