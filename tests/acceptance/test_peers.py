"""The server as the comparison with other systems drives it."""

import sys
from pathlib import Path

from benchmarks.peers.comparing import kill
from benchmarks.peers.systems import Installed


def test_a_killed_server_has_what_it_acknowledged():
    figures = kill(Installed("mnemolog", Path(sys.executable)), storm=2_000, storm_s=0.2)
    assert figures["acknowledged"] > 0
    assert figures["missing"] == 0
