"""What does it take to grow a log from 16 to 64 partitions, and is everything there afterwards?

    python -m benchmarks.grow [--events 200000] [--partitions 16] [--into 64] [--kill] [--way grow|import]

Starts servers of its own, as `mnemolog up` does, in folders that are deleted afterwards. A fleet's work is written for
two tenants (sessions, memories and their revisions, lessons, actions, slots, relations, commits), some of it forgotten,
half of it archived, some bytes that are no events; everything is projected and embedded, by an embedder that this
script serves on loopback and that counts what it is asked. Then the server is stopped, `mnemolog grow` copies the log
(with `--kill` it is killed on the way and given again), and a server with more partitions starts on it.

Printed: how long nothing could be written, how long until everything is projected again, how many texts were embedded
again, what became of tokens, cursors and retries, and whether documents and listings are the same.
`--way import` takes an export and an import instead, of the one tenant that these know. Seed 20261124.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.rebuild import serve_embeddings
from benchmarks.stack import Stack, free_ports
from ingest.commands.decide import AnyCommand, Caller, Relate, ReviseMemory, WriteCommand
from ingest.commands.handler import CommandHandler
from ingest.ids import MEMORY, document_id
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import Token, project_route
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from projections.health.samples import wait_projected
from projections.maintenance.manifests import differences
from tests.support.fleet_work import commands
from tests.support.grown import documents_of

DIMENSIONS = 32
BATCH = 500
WAIT_S = 3_600.0
EVENTS_OF_A_SESSION = 62.0
SOME = 20
"""Memories that are forgotten; events that are sent again; pages after which a listing goes on in the new log."""


def ask(url: str, body: Any = None, method: str | None = None) -> Any:
    """The answer of a server, `{"status": ...}` with what it says where it refuses."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.loads(error.read())}


def fleet(events: int) -> list[AnyCommand]:
    """So many commands of a fleet of agents, about."""
    sessions = int(events * 0.8 / EVENTS_OF_A_SESSION)
    until = datetime.now(UTC) - timedelta(hours=1)
    said = commands(until, sessions=sessions, turns=60, long=min(3_000, events // 10), memories=events // 8)
    return [msgspec.convert(one, WriteCommand) for one in said[:events]]


async def write(log: RedisLog, said: list[AnyCommand], tenant: str) -> None:
    """Append commands in batches, revise one memory of ten, relate one of ten to the next."""
    handler, dice = CommandHandler(GroupCommit(log), log.partitions), random.Random(1)
    before = ""
    for start in range(0, len(said), BATCH):
        batch = said[start : start + BATCH]
        more: list[AnyCommand] = []
        for one in batch:
            if type(one).__name__ != "Remember" or dice.random() > 0.2:
                continue
            name = document_id(MEMORY, project_route(tenant, one.project), one.event_id)
            if dice.random() < 0.5:
                more.append(ReviseMemory(memory=name, content=f"{one.content} Again.", project=one.project,  # type: ignore[attr-defined]
                                         memory_type="semantic", purpose="information"))  # fmt: skip
            elif before:
                more.append(Relate(source=name, target=before, relation="about", project=one.project))
            before = name
        for some in (batch, more):
            outcome = await handler.handle_batch(some, Caller(tenant))
            if outcome.rejected:
                raise RuntimeError(f"not all accepted: {outcome.rejected[0]}")


async def settled(redis: Client, log: RedisLog) -> float:
    """Return when everything is projected and embedded; the seconds until it was projected."""
    began = time.perf_counter()
    heads = Token({partition: await log.head(partition) for partition in range(log.partitions)})
    await wait_projected(redis, heads, WAIT_S)
    projected_s = time.perf_counter() - began
    while True:
        live = [PartitionKeys(n).of_generation(1).embed_queue for n in range(log.partitions)]
        if not sum([await redis.zcard(name) for name in live]):
            return projected_s
        await asyncio.sleep(0.5)


def command_line(stack: Stack, *words: str) -> tuple[list[str], dict[str, str]]:
    """A command on the data of a stack, which need not run."""
    environment = {name: value for name, value in stack.environment.items() if name != "REDIS_URL"}
    return [sys.executable, "-m", "api.cli.main", *words], {**environment, "MNEMOLOG_URL": stack.url}


def run(stack: Stack, *words: str) -> Any:
    """What a command prints as JSON; raises RuntimeError where it fails."""
    line, environment = command_line(stack, *words, "--json")
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def listing(url: str, after: str, pages: int) -> tuple[list[str], str]:
    """Names of the events behind a place in the log, and the place that they end at."""
    names: list[str] = []
    for _ in range(pages):
        page = ask(f"{url}/v1/events?limit=1000&after={after}")
        if not page["events"]:
            break
        names += [f"{one.get('event_id')} {one['recorded_at']}" for one in page["events"]]
        after = page["next"]
    return names, after


async def old_log(stack: Stack, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the log, and note what must hold afterwards."""
    redis = connect(stack.redis_url)
    log = RedisLog(redis, options.partitions)
    await log.create_or_check()
    said = fleet(options.events * 22 // 25)
    for part in (said[: len(said) // 2], said[len(said) // 2 :]):
        await write(log, part, "default")
        await write(log, part[:: 8 if options.way == "grow" else len(part)], "second")
        await settled(redis, log)
        if options.way == "grow":
            run(stack, "archive", "seal")
    await log.append({n: [Entry(f"garbage {n}", b"\xc1 no event")] for n in range(0, options.partitions, 4)})
    memories = ask(f"{stack.url}/v1/memories?project=storefront&limit={SOME}")["items"]
    for one in memories:
        ask(f"{stack.url}/v1/memories/{one['id']}", method="DELETE")
    again = [one for one in said if type(one).__name__ == "Observe"][-SOME:]
    handler = CommandHandler(GroupCommit(log), log.partitions)
    first = [await handler.handle(one, Caller("default")) for one in again]
    await settled(redis, log)
    heads = {partition: await log.head(partition) for partition in range(options.partitions)}
    found = {
        "heads": str(Token(heads)), "again": again, "first": first, "forgotten": [one["id"] for one in memories],
        "documents": await documents_of(redis, options.partitions, options.partitions),
        "listing": listing(stack.url, "", 1 << 30)[0], "page": listing(stack.url, "", SOME),
    }  # fmt: skip
    await redis.aclose()
    return found


def grown(old: Stack, new: Stack, options: argparse.Namespace) -> dict[str, Any]:
    """Run `mnemolog grow`; killed half way and given again where that is asked for."""
    words = ("grow", "--from", str(old.folder / "data"))
    figures: dict[str, Any] = {}
    if options.kill:
        line, environment = command_line(new, *words, "--json")
        with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, start_new_session=True) as child:
            time.sleep(options.kill)
            os.killpg(child.pid, signal.SIGKILL)
        figures["killed after s"] = options.kill
    began = time.perf_counter()
    before_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    report = run(new, *words, *([] if options.documents else ["--no-documents"]))
    figures["grow s"] = round(time.perf_counter() - began, 1)
    figures["its processor time s"] = round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before_s, 1)
    return {**figures, "events copied by this run": report["copied"], "events": report["events"]}


def imported(new: Stack, file: Path) -> dict[str, Any]:
    """Run `mnemolog import` on a server that runs."""
    began = time.perf_counter()
    report = run(new, "import", str(file))
    return {"import s": round(time.perf_counter() - began, 1), "events": report["events"],
            "lines rejected": report["rejected_lines"]}  # fmt: skip


async def new_log(stack: Stack, known: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """What became of everything, in the log of more partitions."""
    redis, figures = connect(stack.redis_url), dict[str, Any]()
    log = RedisLog(redis, options.into)
    await log.create_or_check()
    waited = ask(f"{stack.url}/v1/memories?project=mobile-app&limit=1&after={known['heads']}")
    figures["token of before, at once"] = waited.get("status", 200)
    figures["projected again s"] = round(await settled(redis, log), 1)
    waited = ask(f"{stack.url}/v1/memories?project=mobile-app&limit=1&after={known['heads']}")
    figures["token of before, projected"] = f"{waited.get('status', 200)} {waited.get('detail', '')}".strip()
    different = differences(known["documents"], await documents_of(redis, options.into, options.partitions))
    figures["documents that differ"] = sum(one.documents for one in different)
    figures["listings that differ"] = sum(one.listings for one in different)
    handler = CommandHandler(GroupCommit(log), log.partitions)
    again = [await handler.handle(one, Caller("default")) for one in known["again"]]
    figures["writes sent again, known"] = f"{sum(one.duplicate for one in again)} of {len(again)}"
    names, after = known["page"]
    rest, _ = listing(stack.url, after, 1 << 30)
    figures["listing goes on: lost, twice"] = _compared(known["listing"], names + rest)
    figures["forgotten things found"] = sum(
        "status" not in ask(f"{stack.url}/v1/memories/{name}") for name in known["forgotten"]
    )
    await redis.aclose()
    return figures


def _compared(wanted: list[str], found: list[str]) -> str:
    return f"{(Counter(wanted) - Counter(found)).total()}, {(Counter(found) - Counter(wanted)).total()}"


def steps(options: argparse.Namespace, texts: Any, embedder: str) -> Iterator[tuple[str, Any]]:
    """The figures, as they come."""
    shared = {
        "archive_after": "31536000",
        "embedder": embedder,
        "lag_ceiling": "0",
        "session_idle_minutes": "500000",
        "condense_threshold": "0",
    }
    archived = options.way == "grow"
    old = Stack(**shared, partitions=str(options.partitions), archive="{folder}/archive" if archived else "")
    new = Stack(**shared, partitions=str(options.into), archive=str(old.folder / "archive") if archived else "")
    with old:
        known = asyncio.run(old_log(old, options))
        yield "texts embedded", texts.value
        before = texts.value
        file = old.folder / "export.ndjson"
        began = time.perf_counter()
        if options.way == "import":
            report = run(old, "export", "--output", str(file))
            yield "export s", round(time.perf_counter() - began, 1)
            yield "events exported", report["events"]
        else:
            old.stop()
            yield "stopping s", round(time.perf_counter() - began, 1)
            yield from grown(old, new, options).items()
        with new:
            if options.way == "import":
                yield from imported(new, file).items()
            yield "nothing could be written for s", round(time.perf_counter() - began, 1)
            yield from asyncio.run(new_log(new, known, options)).items()
            yield "texts embedded again", texts.value - before


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--into", type=int, default=64)
    parser.add_argument("--way", choices=("grow", "import"), default="grow")
    parser.add_argument("--kill", type=float, default=0.0, metavar="S", help="kill the first try after so many seconds")
    parser.add_argument("--documents", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    (port,) = free_ports(1)
    texts = multiprocessing.get_context("spawn").Value("q", 0)
    server = multiprocessing.get_context("spawn").Process(
        target=serve_embeddings, args=(port, DIMENSIONS, texts), daemon=True
    )
    server.start()
    console, table = Console(stderr=True), Table("figure", "value", title=f"{options.way}, {options.events:,} events")
    for name, value in steps(options, texts, f"openai:http://127.0.0.1:{port}/v1|bench|{DIMENSIONS}"):
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        console.print(f"{name}: {shown}")
        table.add_row(name, shown)
    Console().print(table)


if __name__ == "__main__":
    uvloop.install()
    main()
