"""Breaks a line that a promise depends on, and checks that the tests notice: one mutant after the other.

    python tools/mutants.py [--only WORD]

Each mutant names a file, the text that is replaced, and the tests of `make test` that must fail. The change is made in
a copy of the tracked files, so the checkout stays as it is. Ends with 1 where a mutant survives, or where the text is
no longer there (then the mutant needs a new place).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """A line that is broken on purpose."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "fencing: a worker whose lease is lost saves",
        "projections/store/redis_store.py",
        "owned = int(fence or 0) == self._fence and live == self._generation",
        "owned = live == self._generation",
        "tests/conformance/test_state_store.py",
    ),
    Mutant(
        "fencing: a runner saves into a generation that is no longer read",
        "projections/store/redis_store.py",
        "owned = int(fence or 0) == self._fence and live == self._generation",
        "owned = int(fence or 0) == self._fence",
        "tests/conformance/test_state_store.py",
    ),
    Mutant(
        "lease: taken although another worker holds it",
        "ingest/log/lua/acquire_lease.lua",
        "if holder and holder ~= ARGV[1] then return 0 end",
        "",
        "tests/conformance/test_lease.py tests/conformance/test_runner_host.py",
    ),
    Mutant(
        "dedup: an id of the previous window is forgotten",
        "ingest/log/lua/append.lua",
        "in_current[n] or in_previous[n] or fresh[id]",
        "in_current[n] or fresh[id]",
        "tests/conformance/test_event_log.py",
    ),
    Mutant(
        "dedup: twice in one batch is stored twice",
        "ingest/log/lua/append.lua",
        "in_current[n] or in_previous[n] or fresh[id]",
        "in_current[n] or in_previous[n]",
        "tests/conformance/test_event_log.py",
    ),
    Mutant(
        "visibility: the tenant is not compared",
        "projections/documents/access.py",
        'if getattr(document, "tenant", None) != reader.tenant:',
        "if False:",
        "tests/unit/projections/documents/test_access.py",
    ),
    Mutant(
        "visibility: a key's projects are not compared",
        "projections/documents/access.py",
        'if reader.reach.projects and getattr(document, "project", None) not in reader.reach.projects:',
        "if False:",
        "tests/unit/projections/documents/test_access.py",
    ),
    Mutant(
        "visibility: a private memory is read by those it was once shared with",
        "projections/documents/memories.py",
        '*(self.shared_with if self.visibility == "shared" else ())',
        "*self.shared_with",
        "tests/unit/projections/documents/test_access.py",
    ),
    Mutant(
        "visibility: isolated agents see what others wrote",
        "projections/documents/access.py",
        'if reader.only_agent and getattr(document, "agent_id", "") != reader.only_agent:',
        "if False:",
        "tests/unit/projections/documents/test_access.py",
    ),
    Mutant(
        "tombstones: a late repeat brings a forgotten memory back",
        "projections/folds/memories.py",
        "case Memory(position=first) | Tombstone(position=first):",
        "case Memory(position=first):",
        "tests/unit/projections/folds tests/properties",
    ),
    Mutant(
        "secrets: names in data that say password are not looked at",
        "ingest/secrets/clean.py",
        "plain = gather(value, texts) and plain",
        "gather(value, texts)",
        "tests/unit/ingest/secrets tests/unit/ingest/commands",
    ),
    Mutant(
        "secrets: a batch is not looked through",
        "ingest/commands/handler.py",
        "small and are_clean(valid)",
        "small",
        "tests/unit/ingest/commands",
    ),
    Mutant(
        "secrets: a name that holds one is stored",
        "ingest/secrets/clean.py",
        'if names == "keep" or (stripped := scrub_text(name)) == name:',
        'if (stripped := name) == name or names == "keep":',
        "tests/unit/ingest/secrets",
    ),
    Mutant(
        "decay: lessons do not fade in their second week",
        "projections/documents/lessons.py",
        "if weeks < 1:",
        "if weeks < 2:",
        "tests/unit/projections/documents/test_lesson_rules.py",
    ),
    Mutant(
        "decay: a confirmed lesson is dropped",
        "projections/documents/lessons.py",
        "return reinforcements == 0 and confidence <= RETIRE_AT",
        "return confidence <= RETIRE_AT",
        "tests/unit/projections/documents/test_lesson_rules.py",
    ),
    Mutant(
        "read your writes: one partition of the token is enough",
        "ingest/log/position.py",
        "return all(applied.get(partition, START) >= position",
        "return any(applied.get(partition, START) >= position",
        "tests/unit/ingest/log",
    ),
    Mutant(
        "read your writes: a token keeps the older of two positions",
        "ingest/log/position.py",
        "if partition not in self or self[partition] < position:",
        "if partition not in self or self[partition] > position:",
        "tests/unit/ingest/log",
    ),
    Mutant(
        "routing: every tenant's events have one id space",
        "ingest/ids.py",
        r'return blake2b(f"{routing_key}\0{event_id}".encode(), digest_size=16).hexdigest()',
        "return blake2b(event_id.encode(), digest_size=16).hexdigest()",
        "tests/unit/ingest/commands/test_handler.py",
    ),
    Mutant(
        "overload: the gate lets every write in",
        "ingest/commands/handler.py",
        "self.gate.check()",
        "pass",
        "tests/unit/ingest/commands tests/conformance/test_vitals.py tests/unit/projections",
    ),
    Mutant(
        "embedding: a text that was queued again is taken off the queue",
        "ingest/log/lua/finish_embedding.lua",
        "if score and tonumber(score) == tonumber(ARGV[n + 1]) then",
        "if score then",
        "tests/conformance/test_embedder.py tests/conformance/test_embedding_rebuild.py",
    ),
)


def main() -> None:
    """Try every mutant; print a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose name has this word")
    only: str = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="mnemo-mutants-") as folder:
        copy = Path(folder) / "copy"
        _copy(copy)
        wrong = [mutant.name for mutant in MUTANTS if only in mutant.name and not _caught(mutant, copy)]
    print(f"{len(wrong)} of {len(MUTANTS)} survived" if wrong else "every mutant was caught")
    sys.exit(bool(wrong))


def _copy(copy: Path) -> None:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)


def _caught(mutant: Mutant, copy: Path) -> bool:
    file = copy / mutant.file
    original = file.read_text()
    if original.count(mutant.old) != 1:
        print(f"MOVED     {mutant.name}: {mutant.file} has the text {original.count(mutant.old)} times")
        return False
    file.write_text(original.replace(mutant.old, mutant.new))
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split()]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=None)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        caught = done.returncode == 1 and bool(failed)
        print(
            f"{'caught   ' if caught else 'SURVIVED '} {mutant.name}: {failed[0] if failed else mutant.tests}",
            flush=True,
        )
        return caught
    finally:
        file.write_text(original)


if __name__ == "__main__":
    main()
