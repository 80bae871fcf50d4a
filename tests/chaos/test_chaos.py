"""A minute of chaos: processes killed, paused and restarted, the log's file torn, its disk slow, writes repeated.

The seed is fixed: the same things happen after the same pauses, though not at the same instruction. `make chaos` runs
five minutes, or as long as `SECONDS` says.
"""

from pathlib import Path

import pytest

from ingest.log.position import Position
from tests.chaos.faults import end_of_acknowledged
from tests.chaos.run import chaos

SECONDS, SEED = 60.0, 9
KINDS = 8


@pytest.mark.nightly
@pytest.mark.timeout(420)
async def test_nothing_acknowledged_is_lost_doubled_or_invented(tmp_path: Path):
    """Every acknowledged event is in the log once, and every projection equals a replay from zero."""
    verdict, report = await chaos(SECONDS, SEED, tmp_path)
    assert verdict.faultless, report
    assert verdict.present == verdict.acknowledged > 300
    assert report["forgotten"] > 5
    assert report["virtual_minutes"] >= 2
    assert sum(count >= 2 for count in report["faults"].values()) >= KINDS, report["faults"]
    assert min(report["requests"][kind] for kind in ("repeats", "reordered", "twice")) > 0


def record(position: str) -> bytes:
    return b"MULTI\r\n*5\r\nXADD\r\n" + position.encode() + b"\r\n$1\r\ne\r\n$4\r\nsaid\r\n*1\r\n$4\r\nEXEC\r\n"


def test_a_torn_file_keeps_the_whole_transaction_of_what_was_acknowledged_last():
    tail = record("5-0") + record("6-0") + record("7-0")
    assert end_of_acknowledged(tail, [Position(5, 0), Position(6, 0)]) == len(record("5-0") + record("6-0"))
    assert end_of_acknowledged(tail, [Position(7, 0)]) == len(tail)
    assert end_of_acknowledged(tail, [Position(4, 0)]) == 0
