"""The command that kills processes during writes: what it counts, and that it finds nothing lost."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kill import compare
from ingest.log.position import Position, Token

ROOT = Path(__file__).parents[2]


def at(ms: int, partition: int = 0) -> Token:
    return Token({partition: Position(ms, 0)})


ACKNOWLEDGED = {"a": at(1), "b": at(2), "c": at(1, partition=1)}


@pytest.mark.parametrize(
    ("log", "counts"),
    [
        ([*ACKNOWLEDGED.items()], (3, 3, 0, 0, 0)),
        ([("a", at(1)), ("b", at(2))], (3, 2, 1, 0, 0)),
        ([*ACKNOWLEDGED.items(), ("b", at(5)), ("b", at(6))], (3, 5, 0, 2, 0)),
        ([("a", at(1)), ("b", at(2)), ("c", at(1))], (3, 3, 0, 0, 1)),
    ],
    ids=["as acknowledged", "a lost write", "a write twice more", "a write in another partition"],
)
def test_what_the_log_lacks_or_has_twice_or_elsewhere_is_counted(log: list[tuple[str, Token]], counts: tuple[int, ...]):
    assert tuple(compare(ACKNOWLEDGED, log).values()) == counts


def test_kills_of_each_process_lose_and_duplicate_nothing():
    command = [sys.executable, "-m", "benchmarks.kill", "--writers", "8", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        name: int(number) for name, number in re.findall(r"^  ([a-z ]+?) +(\d+)$", done.stdout.replace(",", ""), re.M)
    }
    assert re.findall(r"kill -9 (\w+)", done.stdout) == ["api", "worker", "valkey"]
    assert counts["acknowledged"] == counts["in the log"] != "0"
    assert counts["repeated on purpose"] != "0"
