"""How long do other systems' clients wait? Latency at the doors while a fleet writes.

    mnemolog up --drop-in agent-memory
    python -m benchmarks.doors [--rate 200] [--seconds 30] [--url http://127.0.0.1:3111] [--agent-memory http://127.0.0.1:3377]

In the background observations arrive at agentmemory's door at a steady rate, from many sessions. Beside that, one after
the other and each on a connection of its own, as hooks make them: an observation, a session's start, agent-memory's
health, a match of lessons. Lessons, memories and sessions are there before it begins.
"""

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlsplit

import uvloop

from benchmarks.corpus import PARTS, text
from benchmarks.driving import percentile

SEED = 20261122
LESSONS, MEMORIES = 200, 500
PAUSE_S = 0.01
MOST = 1_000_000
"""Texts are those of numbers below."""
CALL_TIMEOUT_S = 10.0
BARS_MS = {"observe": 100, "session/start": 100, "agent-memory health": 50, "lesson match": 50}


async def call(url: str, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """One request on a connection of its own: status and body of the answer."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        sent = b"" if body is None else json.dumps(body).encode()
        secret = os.environ.get("MNEMOLOG_SECRET")
        head = [
            f"{method} {path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: close",
            f"Content-Length: {len(sent)}",
        ]
        head += [f"Authorization: Bearer {secret}"] if secret else []
        writer.write("\r\n".join([*head, "Content-Type: application/json", "", ""]).encode() + sent)
        answer = await asyncio.wait_for(reader.read(), CALL_TIMEOUT_S)
    finally:
        writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


def observation(random_: random.Random, session: str, project: str) -> dict[str, Any]:
    """What a post-tool-use hook sends, about 1 KiB."""
    return {
        "hookType": "post_tool_use",
        "sessionId": session,
        "project": project,
        "cwd": f"/src/{project}",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "data": {
            "tool_name": random_.choice(["Edit", "Bash", "Read", "Grep"]),
            "tool_input": {"file_path": f"/src/{project}/{random_.choice(PARTS)}.py"},
            "tool_output": text(random_.randrange(MOST), 900),
        },
    }


async def seed(url: str, agent_memory: str, random_: random.Random, project: str) -> None:
    """Lessons with triggers at agent-memory's door, memories at agentmemory's."""
    for number in range(LESSONS):
        lesson = {
            "title": f"lesson {number}",
            "rule": text(number, 80),
            "project": project if number % 2 else None,
            "trigger_tool": random_.choice(["Bash", "Edit", None]),
            "trigger_pattern": random_.choice(PARTS) + r"\b.*(prod|main)",
        }
        assert (await call(agent_memory, "POST", "/api/lessons", lesson))[0] == 200
    for number in range(MEMORIES):
        memory = {"content": f"{number}: {text(number, 200)}", "project": project}
        assert (await call(url, "POST", "/agentmemory/remember", memory))[0] == 201


async def background(url: str, rate: float, until: float, project: str) -> int:
    """Send observations at a steady rate; how many were accepted."""
    random_ = random.Random(SEED + 1)
    started, sent = time.perf_counter(), 0
    accepted = 0
    running: set[asyncio.Task[tuple[int, bytes]]] = set()

    def done(task: "asyncio.Task[tuple[int, bytes]]") -> None:
        nonlocal accepted
        running.discard(task)
        accepted += task.exception() is None and task.result()[0] == 201

    while time.perf_counter() < until:
        due = (time.perf_counter() - started) * rate
        while sent < due:
            body = observation(random_, f"background-{sent % 29}", project)
            task = asyncio.create_task(call(url, "POST", "/agentmemory/observe", body))
            running.add(task)
            task.add_done_callback(done)
            sent += 1
        await asyncio.sleep(0.005)
    await asyncio.gather(*running, return_exceptions=True)
    print(f"background: {accepted} of {sent} accepted, {sent / (time.perf_counter() - started):.0f}/s")
    return accepted


async def measure(url: str, agent_memory: str, until: float, project: str) -> dict[str, list[float]]:
    """Milliseconds of every call, by what was called."""
    random_ = random.Random(SEED + 2)
    number = 0

    async def expect(status: int, answer: Awaitable[tuple[int, bytes]]) -> None:
        got, body = await answer
        assert got == status, body[:300]

    def observe() -> Awaitable[None]:
        return expect(201, call(url, "POST", "/agentmemory/observe", observation(random_, "measured", project)))

    def start() -> Awaitable[None]:
        body = {"sessionId": f"s-{project}-{number}", "project": project, "cwd": "/src"}
        return expect(200, call(url, "POST", "/agentmemory/session/start", body))

    def match() -> Awaitable[None]:
        preview = quote(text(random_.randrange(MOST), 700) + " prod")
        path = f"/api/lessons/match?tool_name=Bash&project={project}&tool_input_preview={preview}"
        return expect(200, call(agent_memory, "GET", path))

    calls: dict[str, Callable[[], Awaitable[None]]] = {
        "observe": observe,
        "session/start": start,
        "agent-memory health": lambda: expect(200, call(agent_memory, "GET", "/api/health")),
        "lesson match": match,
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    while time.perf_counter() < until:
        number += 1
        for name, make in calls.items():
            started = time.perf_counter()
            await make()
            samples[name].append((time.perf_counter() - started) * 1000)
            await asyncio.sleep(PAUSE_S)
    return samples


async def main() -> None:
    """Seed, load, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--url", default="http://127.0.0.1:3111")
    parser.add_argument("--agent-memory", default="http://127.0.0.1:3377")
    asked = parser.parse_args()
    project = f"doors-{int(time.time())}"
    await seed(asked.url, asked.agent_memory, random.Random(SEED), project)
    until = time.perf_counter() + asked.seconds
    _, samples = await asyncio.gather(
        background(asked.url, asked.rate, until, project), measure(asked.url, asked.agent_memory, until, project)
    )
    for name, times in samples.items():
        p50, p99 = percentile(times, 0.50), percentile(times, 0.99)
        print(f"{name:20} n={len(times):4}  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  (bar {BARS_MS[name]} ms)")


if __name__ == "__main__":
    uvloop.run(main())
