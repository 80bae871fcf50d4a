"""The compiled module is used where it is installed, and not needed where it is not."""

import json
import subprocess
import sys

import pytest

from projections.kernel.module import INSTALLED, NATIVE

SEARCH = """
import json, sys
from importlib.machinery import ModuleSpec
from types import ModuleType
if sys.argv[1] == "without":
    sys.modules["mnemolog_kernel"] = None
if sys.argv[1] == "another version":
    other = sys.modules["mnemolog_kernel"] = ModuleType("mnemolog_kernel")
    other.VERSION, other.__spec__ = 0, ModuleSpec("mnemolog_kernel", None)
import numpy as np
import api.app, workers.main
from projections.documents.index_entry import IndexEntry
from projections.kernel.module import NATIVE
from projections.search.embedded import search
from projections.search.question import Filter, Question
from projections.search.replica import IndexReplica
from projections.search.terms import terms
from projections.store.feed import Put
from projections.vectors.static import StaticTable

names = ["deploi", "tuesdai", "pool", "redi", "restart"]
index = IndexReplica(0, "none", StaticTable("static-test", names, np.eye(5, 8, dtype=np.float32)))
texts = [f"We deploy on Tuesdays, said agent{n}; the pool of redis {n % 7} restarts." for n in range(1_200)]
common = dict(kind="memory", tenant="t", project="p", agent_id="", user_id="", recorded_ms=1)
index.apply(0, [
    Put(IndexEntry(id=f"mem_{n:04}", terms=" ".join(terms(text)), occurred_ms=n, **common))
    for n, text in enumerate(texts)
])
asked = [Question(text=text, vector=None) for text in ("when do we deploi agent77?", "restart of the pool", "redys")]
hits = [[(hit.id, hit.score, hit.confidence) for hit in search(index, it, Filter(tenant="t"))] for it in asked]
print(json.dumps([NATIVE, hits]))
"""


def searched(module: str) -> tuple[bool, list[list[tuple[str, float, float | None]]]]:
    """Whether the compiled module was used, and the hits of three questions."""
    done = subprocess.run([sys.executable, "-c", SEARCH, module], capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def test_an_installed_module_is_of_the_version_that_is_called():
    assert NATIVE == INSTALLED, "build it again: pip install ./projections/kernel/native"


@pytest.mark.parametrize("module", ["without", "another version"])
def test_without_it_everything_is_loaded_and_a_search_finds_the_same(module: str):
    (_, expected), (is_compiled, hits) = searched("with"), searched(module)
    assert not is_compiled
    assert hits == expected
    assert all(hits)
