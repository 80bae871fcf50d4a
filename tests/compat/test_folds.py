"""What the folds make of stored logs changes only together with their version.

`data/folds.jsonl` has a log per line: pairs of a position and an event, as it was stored, in base64. Some are parts of
a server's log, others are histories that `tests/support/histories.py` generated. `data/folds.json` has the digest of
the documents, listings and index terms, by the version of the folds.
"""

import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import msgspec
from folding import folded

from ingest.log.position import Position
from ingest.nouns.registry import decode
from projections.maintenance.differences import manifest_of_store
from projections.nouns.document import index_entry
from projections.nouns.fold import VERSION, rebuild_due

DATA = Path(__file__).parent / "data"


def test_folds_that_give_another_result_have_another_version():
    digest = sha256()
    for line in (DATA / "folds.jsonl").read_text().splitlines():
        events = [decode(b64decode(payload), Position.parse(position)) for position, payload in json.loads(line)]
        store = folded(events)
        entries = filter(None, map(index_entry, store.documents.values()))
        terms = sorted(f"{entry.id} {entry.terms}" for entry in entries)
        digest.update(msgspec.json.encode([manifest_of_store(store).summary, terms]))
    expected = json.loads((DATA / "folds.json").read_text())
    actual = {str(VERSION): digest.hexdigest()}
    assert actual.items() <= expected.items(), (
        f"the folds' result changed: raise VERSION in projections/nouns/fold.py, and add {actual} to {DATA}/folds.json"
    )


def test_documents_of_another_version_or_of_none_need_a_rebuild():
    assert rebuild_due(str(VERSION).encode()) == ""
    assert rebuild_due(b"8") == f"rebuild due: documents were folded by version 8, this release folds {VERSION}"
    assert "folded by an earlier release" in rebuild_due(None)
