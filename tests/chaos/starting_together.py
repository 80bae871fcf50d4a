"""Several `mnemolog up` started at the same moment on one data folder, or one port: one serves, the others say why not.

`python -m tests.chaos.starting_together --runs 50 --together 3` writes a line for each run and what went wrong, and
exits 1 when anything did.
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.support.ports import free_port, free_ports
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
UP_S = 120.0
SERVES = "Ctrl-C stops it."


class Started:
    """One `mnemolog up`, and what it wrote."""

    def __init__(self, folder: Path, data: Path, port: int, number: int) -> None:
        self.port, self.errors = port, folder / f"up-{number}.log"
        kept = {one: said for one, said in os.environ.items() if one != "REDIS_URL" and not one.startswith("MNEMO")}
        chosen = {
            "MNEMOLOG_DATA_DIR": str(data),
            "MNEMOLOG_CACHE_DIR": str(folder / "cache"),
            "MNEMOLOG_SPOOL": str(folder / f"spool-{number}"),
            "MNEMOLOG_PORT": str(port),
            "MNEMOLOG_PARTITIONS": "2",
            "MNEMOLOG_EMBEDDER": "none",
        }
        command = [sys.executable, "-m", "api.cli.main", "up"]
        with self.errors.open("wb") as output:
            self.process = subprocess.Popen(command, env={**kept, **chosen}, cwd=ROOT, stdout=output, stderr=output)

    def said(self) -> str:
        """All of its output, on one line."""
        return " ".join(self.errors.read_text().split())

    def settled(self) -> bool:
        """Whether it serves or has ended."""
        return SERVES in self.said() or self.process.poll() is not None

    def end(self) -> None:
        """Stop it if it runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


async def start_together(together: int, *, one_port: bool = False) -> list[str]:
    """What went wrong; empty for nothing. With `one_port` each has a data folder of its own, else a port of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
    ports = [free_port()] * together if one_port else free_ports(together)
    data = [folder / f"data-{n}" if one_port else folder / "data" for n in range(together)]
    started = [Started(folder, data[n], ports[n], n) for n in range(together)]
    try:
        await wait_until(lambda: all(one.settled() for one in started), UP_S)
        return await _faults(started, folder, "port" if one_port else "data folder")
    finally:
        for one in started:
            one.end()
        shutil.rmtree(folder)


async def _faults(started: Sequence[Started], folder: Path, shared: str) -> list[str]:
    serving = [one for one in started if one.process.poll() is None]
    refused = [one for one in started if one.process.poll() is not None]
    if len(serving) != 1:
        return [f"{len(serving)} serve: {[one.said() for one in started]}"]
    first = serving[0]
    faults = [
        f"exit code {one.process.returncode}: {one.said()}"
        for one in refused
        if one.process.returncode != 1 or "Traceback" in one.said() or "error:" not in one.said()
    ]
    named = f"(process {first.process.pid})"
    faults += [one.said() for one in refused if named not in one.said() or f"{shared} " not in one.said()]
    servers = valkeys_of(folder)
    if len(servers) != 1:
        faults.append(f"{len(servers)} Valkeys: {servers}")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{first.port}", timeout=30, trust_env=False) as http:
        answer = await http.post("/v1/memories", json={"content": "kept while others were refused"})
        if answer.status_code != 202:
            faults.append(f"a write after the others had gone: {answer.status_code} {answer.text}")
    first.end()
    if first.process.returncode != 0:
        faults.append(f"the one that served ended with {first.process.returncode}: {first.said()}")
    if valkeys_of(folder):
        faults.append("a Valkey is left")
    return faults


def valkeys_of(folder: Path) -> list[int]:
    """Process ids of the Valkeys that have their data or socket below a folder (Linux)."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:  # it has ended since
            continue
        program = words.partition(b"\0")[0].partition(b" ")[0]  # a running server writes its socket behind its name
        if program.endswith(b"valkey-server") and bytes(folder) in words:
            found.append(int(process.name))
    return found


def main() -> None:
    """Run it as often as it is told to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--together", type=int, default=2)
    parser.add_argument("--one-port", action="store_true", help="one port and several data folders")
    given = parser.parse_args()
    wrong = 0
    for run in range(1, given.runs + 1):
        faults = asyncio.run(start_together(given.together, one_port=given.one_port))
        wrong += bool(faults)
        print(f"{run}/{given.runs}: {'; '.join(faults) or 'right'}", flush=True)
    print(f"{given.runs} runs with {given.together}: {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
