"""Does the server stay up for others under hostile bodies, and does it give the memory back?

    mnemolog up --drop-in all
    python -m benchmarks.hostile_bodies [--bodies 200] [--at-once 8]

Sends bodies that are within the accepted size and cost as much as bodies can: a million values, nesting, huge numbers
and texts, lengths that lie, batches of 10,000 rejected items, observations of a hundred thousand values; to the native
routes, other systems' APIs and MCP, several at a time. Meanwhile a process of its own asks for `/livez` every ten
milliseconds. The memory is that of the process that listens on the port, read from /proc, so both run on
one Linux machine: before anything, when one body of each kind was sent (what is loaded once is in it then), and
after the last. Ends with 1 where a bar is missed: /livez p99 100 ms, memory back within 20 % of the second of these.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from rich.console import Console
from rich.table import Table

SEED = 20261123
DICE = random.Random(SEED)
PROBE_EVERY_S = 0.01
SETTLE_S = 90.0
"""How long memory may take to come back: until the last write is projected and indexed."""
P99_BAR_MS, MEMORY_BAR = 100.0, 1.20
ANSWER_S = 600.0
JSON, NDJSON, MSGPACK = "application/json", "application/x-ndjson", "application/msgpack"
MCP_HEADERS = "Accept: application/json, text/event-stream\r\n"
MILLION = 1_000_000
PORTS = {"agentd": 17008, "agent-memory": 3377, "memex": 8000}


Times: TypeAlias = "multiprocessing.SimpleQueue[list[float]]"


class Body(NamedTuple):
    """A request that costs much; `door` is the API that has a port of its own, if any."""

    name: str
    path: str
    make: Callable[[], bytes]
    content_type: str = JSON
    call: str = ""


def array(item: bytes, count: int = MILLION) -> bytes:
    """A JSON array of one item, many times."""
    return b"[" + b",".join([item] * count) + b"]"


def keyed(count: int) -> bytes:
    """A JSON object of so many keys."""
    return b"{" + b",".join(b'"key%d":%d' % (n, n) for n in range(count)) + b"}"


def observation(data: bytes) -> bytes:
    """A valid observation of a new session with this data."""
    return b'{"session_id":"s%d","project":"hostile","data":%b}' % (DICE.getrandbits(40), data)


def tool_call(arguments: bytes) -> bytes:
    """A call of MCP's remember."""
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":'
    return head + arguments + b"}}"


def deep(levels: int) -> bytes:
    """An array in an array, so many times."""
    return b"[" * levels + b"]" * levels


KEY = b"abcdefghijklmnopqrst01"
HOOK = b'{"sessionId":"h","hookType":"post_tool_use","project":"hostile","timestamp":"2026-01-31T12:00:00Z","data":%b}'
QUEUED = b'{"session_id":"q","tool_name":"Bash","cwd":"/hostile","tool_input":{"x":%b}}'
FACTS = b'{"session_id":"q","project":"hostile","title":"x","facts":%b}'
REJECTED = b'{"type":"observe"}'
BIG = 15 << 20

BODIES = [
    Body("integers", "/v1/events", lambda: array(b"1")),
    Body("empty objects", "/v1/events", lambda: array(b"{}")),
    Body("empty arrays", "/v1/events", lambda: array(b"[]", 5 * MILLION)),
    Body("empty texts", "/v1/events", lambda: array(b'""', 5 * MILLION)),
    Body("eight million integers", "/v1/events", lambda: array(b"1", 8 * MILLION - 10)),
    Body("texts of commas", "/v1/events", lambda: array(b'",[{"', 2 * MILLION)),
    Body("10,000 rejected", "/v1/events", lambda: array(REJECTED, 10_000)),
    Body("10,000 rejected, big", "/v1/events", lambda: array(b'{"type":"observe","x":"%b"}' % (b"x" * 1500), 10_000)),
    Body("10,000 rejected by the rules", "/v1/events", lambda: array(b'{"type":"observe","session_id":"s"}', 10_000)),
    Body("deep arrays", "/v1/events", lambda: array(deep(900), 8_000)),
    Body("one deep array", "/v1/events", lambda: deep(8 * MILLION)),
    Body("duplicate keys", "/v1/events", lambda: b"[{" + b",".join([b'"type":"observe"'] * 900_000) + b"}]"),
    Body("lines of integers", "/v1/events", lambda: b"1\n" * MILLION, NDJSON),
    Body("blank lines", "/v1/events", lambda: b"\n" * BIG, NDJSON),
    Body("10,000 rejected lines", "/v1/events", lambda: b"{}\n" * 10_000, NDJSON),
    Body("one line", "/v1/events", lambda: array(b"[]", 5 * MILLION), NDJSON),
    Body("msgpack integers", "/v1/events", lambda: msgspec.msgpack.encode([1] * MILLION), MSGPACK),
    Body("msgpack length that lies", "/v1/events", lambda: b"\xdd\xff\xff\xff\xff" + b"\x90" * BIG, MSGPACK),
    Body("msgpack item of arrays", "/v1/events", lambda: b"\x91\xdd\x00\xef\xff\xff" + b"\x90" * BIG, MSGPACK),
    Body("data of arrays", "/v1/observations", lambda: observation(b'{"x":%b}' % array(b"[]", 120_000))),
    Body("data of keys", "/v1/observations", lambda: observation(keyed(70_000))),
    Body("data of fractions", "/v1/observations", lambda: observation(b'{"x":%b}' % array(b"1.5", 3 * MILLION))),
    Body("metadata of keys", "/v1/memories", lambda: b'{"content":"x","metadata":%b}' % keyed(850_000)),
    Body("one text", "/v1/observations", lambda: observation(b'{"x":"%b"}' % (b"a" * BIG))),
    Body("a text of keys", "/v1/memories", lambda: b'{"content":"%b"}' % (b"token = sk-%b " % KEY * 460_000)),
    Body("a text of escapes", "/v1/memories", lambda: b'{"content":"%b"}' % (rb"\ud83c" * (BIG // 6))),
    Body("a huge integer", "/v1/observations", lambda: observation(b'{"x":%b}' % (b"9" * BIG))),
    Body("a huge fraction", "/v1/observations", lambda: observation(b'{"x":0.%b}' % (b"9" * BIG))),
    Body("tags", "/v1/memories", lambda: b'{"content":"x","tags":%b}' % array(b'""', 5 * MILLION)),
    Body("a query of keys", "/v1/recall", lambda: b'{"query":"x","filters":%b}' % keyed(850_000)),
    Body("an import of lines", "/v1/admin/import", lambda: b'{"format":"mnemolog"}\n' + b"1\n" * MILLION, NDJSON),
    Body("a gzip bomb's beginning", "/v1/events", lambda: b"\x1f\x8b\x08" + b"\x00" * BIG),
    Body("agentmemory: integers", "/agentmemory/remember", lambda: array(b"1", 8 * MILLION - 10)),
    Body("agentmemory: a hook's arrays", "/agentmemory/observe", lambda: HOOK % array(b"[]", 5 * MILLION)),
    Body("agentmemory: a hook's values", "/agentmemory/observe", lambda: HOOK % array(b"[0]", 120_000)),
    Body("agentmemory: an import", "/agentmemory/import", lambda: b'{"exportData":%b}' % keyed(3 * MILLION)),
    Body("agentd: tags", "/memories", lambda: b'{"content":"x","tags":%b}' % array(b'""', 600_000), call="agentd"),
    Body("agent-memory: a hook", "/api/queue", lambda: QUEUED % array(b"[]", 5 * MILLION), call="agent-memory"),
    Body("agent-memory: facts", "/api/observations", lambda: FACTS % array(b"1", 240_000), call="agent-memory"),
    Body("memex: integers", "/v1/memories", lambda: array(b"1", 8 * MILLION - 10), call="memex"),
    Body("MCP: a batch", "/mcp", lambda: array(tool_call(b"{}"), 80_000)),
    Body("MCP: integers", "/mcp", lambda: array(b"1", 4 * MILLION - 10)),
    Body("MCP: arguments", "/mcp", lambda: tool_call(b'{"content":"x","tags":%b}' % array(b"[]", 24_000))),
    Body("MCP: too many arguments", "/mcp", lambda: tool_call(keyed(400_000))),
    Body("MCP: one text", "/mcp", lambda: tool_call(b'{"content":"%b"}' % (b"a b " * 1_900_000))),
]  # fmt: skip


def post(host: str, port: int, one: Body, body: bytes) -> "asyncio.Future[int]":
    """Send a body on a connection of its own; the status of the answer, 0 where the server hung up."""

    async def send() -> int:
        reader, writer = await asyncio.open_connection(host, port)
        secret = os.environ.get("MNEMOLOG_SECRET")
        head = f"POST {one.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: {one.content_type}\r\n{MCP_HEADERS}"
        head += f"Authorization: Bearer {secret}\r\n" if secret else ""
        try:
            writer.write(head.encode() + b"\r\n" + body)
            answer = await reader.read(200)
            while await reader.read(1 << 20):
                pass
            return int(answer.split(b" ")[1]) if answer else 0
        except ConnectionError:
            return 0
        finally:
            writer.close()

    return asyncio.ensure_future(asyncio.wait_for(send(), ANSWER_S))


def probe(url: str, stop: Event, told: Times) -> None:
    """Ask for /livez over and over, on one connection; tells the milliseconds of every answer."""

    async def run() -> list[float]:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        times: list[float] = []
        while not stop.is_set():
            began = time.perf_counter()
            writer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_S)
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            times.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(PROBE_EVERY_S)
        return times

    told.put(asyncio.run(run()))


def listener(port: int) -> int:
    """The process that listens on a port of this machine; raises SystemExit where there is none to be seen."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & set(_links(process / "fd")):
            return int(process.name)
    sys.exit(f"no process of this user listens on port {port}")


def _links(folder: Path) -> Iterator[str]:
    try:
        for name in folder.iterdir():
            yield str(name.readlink())
    except OSError:
        return


def memory(pid: int) -> tuple[int, int]:
    """What a process has in memory, and had at most, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) >> 10, int(most[1]) >> 10


async def send_all(host: str, ports: dict[str, int], bodies: list[Body], at_once: int) -> dict[str, Counter[int]]:
    """Send every body, so many at a time; the statuses by name."""
    answers: dict[str, Counter[int]] = {one.name: Counter() for one in bodies}
    waiting = iter(bodies)

    async def work() -> None:
        for one in waiting:
            body = await asyncio.to_thread(one.make)
            answers[one.name][await post(host, ports[one.call], one, body)] += 1

    await asyncio.gather(*(work() for _ in range(at_once)))
    return answers


def reachable(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


async def main() -> int:
    """Send the bodies and print what became of them, of the probe and of the memory; 0 when the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--bodies", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help="kinds whose name matches this expression")
    for call, port in PORTS.items():
        parser.add_argument(f"--{call}", type=int, default=port, help="its port; left out where nobody listens")
    options = parser.parse_args()
    parts = urlsplit(str(options.url))
    host = parts.hostname or "127.0.0.1"
    ports = {"": parts.port or 80} | {call: getattr(options, call.replace("-", "_")) for call in PORTS}
    kinds = [one for one in BODIES if reachable(host, ports[one.call])]
    kinds = [one for one in kinds if re.search(options.only or "", one.name)]
    chosen = [kinds[n % len(kinds)] for n in range(options.bodies)]
    DICE.shuffle(chosen)
    pid = listener(ports[""])
    fresh, _ = memory(pid)
    await send_all(host, ports, kinds, 1)
    await asyncio.sleep(SETTLE_S / 6)
    before, _ = memory(pid)
    stop, told = multiprocessing.Event(), cast("Times", multiprocessing.SimpleQueue())
    asking = multiprocessing.Process(target=probe, args=(options.url, stop, told))
    asking.start()
    began = time.perf_counter()
    answers = await send_all(host, ports, chosen, options.at_once)
    took = time.perf_counter() - began
    stop.set()
    times = sorted(await asyncio.to_thread(told.get))
    asking.join()
    ends, (after, most) = time.perf_counter() + SETTLE_S, memory(pid)
    right_after = after
    while after > before * MEMORY_BAR and time.perf_counter() < ends:
        await asyncio.sleep(1)
        after, most = memory(pid)
    figures = {
        "bodies": len(chosen),
        "seconds": round(took, 1),
        "livez_asked": len(times),
        "livez_p50_ms": round(times[len(times) // 2], 1),
        "livez_p99_ms": round(times[int(len(times) * 0.99)], 1),
        "livez_max_ms": round(times[-1], 1),
        "mib_fresh": fresh,
        "mib_before": before,
        "mib_right_after": right_after,
        "mib_after": after,
        "mib_most": most,
        "memory_ratio": round(after / before, 2),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        table = Table("body", "answers", title=" ".join(f"{name} {value}" for name, value in figures.items()))
        for name, found in answers.items():
            table.add_row(name, " ".join(f"{count} x {status}" for status, count in sorted(found.items())))
        Console().print(table)
    return int(figures["livez_p99_ms"] > P99_BAR_MS or after > before * MEMORY_BAR)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
