"""Nobody but loopback is asked for, by any part of the server: C code too, which no hook of Python's would see."""

import os
import re
import sys
from pathlib import Path

import pytest

from projections.embedding.factory import build_embedder
from tests.acceptance.running import seed_cache
from tests.support.isolated import looked_up
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
ROOT = Path(__file__).parents[2]
LONG_S = 8
"""Unless it is told not to, onnxruntime asks for its maker's host within this time."""


@pytest.fixture
def home(short_path: Path) -> dict[str, str]:
    """The environment of a user who has set nothing, at home in an empty folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(short_path), "MNEMOLOG_PORT": str(free_port())}


def written_outside(home: Path) -> list[str]:
    """Files below a home folder that are in no folder of ours."""
    found = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    return sorted(str(path) for path in found if "mnemolog" not in path.parts)


def test_up_with_its_demo_looks_up_no_name_and_leaves_nothing_in_the_cache(home: dict[str, str], short_path: Path):
    """With the default embedder, and with an environment that asks for telemetry."""
    cache = short_path / ".cache" / "mnemolog"
    seed_cache(cache)
    build_embedder("default", directory=cache / "models" / "default")  # on a busy machine longer than a start may take
    asking = {**home, "ORT_DISABLE_TELEMETRY": "0"}
    code, said, names = looked_up([sys.executable, "-m", "tests.support.up_for_a_while", str(LONG_S)], asking, 220)
    assert code == 0, said
    assert "mnemolog is up" in " ".join(said.split())
    assert names == set()
    assert written_outside(short_path) == []


def test_whatever_embeds_does_so_through_the_file_that_switches_telemetry_off():
    """Benchmarks and examples, too: their processes then look up what `up` does."""
    importing = re.compile(r"^\s*(?:import|from) onnxruntime", re.MULTILINE)
    folders = ("api", "benchmarks", "examples", "ingest", "mcp_gateway", "projections", "tests", "workers")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if importing.search(path.read_text())]
    assert files == [ROOT / "projections" / "embedding" / "onnx.py"]


def test_a_name_that_is_looked_up_is_noticed(home: dict[str, str]):
    """By C code, as the resolver of the system is."""
    asked = "import socket\ntry: socket.getaddrinfo('telemetry.example', 443)\nexcept OSError: print('refused')"
    assert looked_up([sys.executable, "-c", asked], home, 60) == (0, "refused\n", {"telemetry.example"})
