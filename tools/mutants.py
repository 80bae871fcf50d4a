"""Breaks a line that a promise depends on, and checks that the tests notice: one mutant after the other.

    python tools/mutants.py [--only WORD]

Each mutant has the text that is replaced, wherever it is in the packages, and the names of the tests of `make test`
that must fail, wherever they are in tests/: code and tests may move. The change is made in a copy of the tracked files,
so the checkout stays as it is. Ends with 1 where a mutant survives, where its text is not there exactly once or a test
has another name (MOVED), and where a test fails without any mutant.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("ingest", "projections", "workers", "api", "mcp_gateway")
SECONDS_A_TEST = 60
"""A test that a mutant holds up for longer fails."""


class Mutant(NamedTuple):
    """A line that is broken on purpose; `tests` are names of test functions."""

    name: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "fencing: a worker whose lease is lost saves",
        "is_owner = int(fence or 0) == self._fence and live == self._generation",
        "is_owner = live == self._generation",
        "test_a_store_that_lost_its_partition_saves_nothing",
    ),
    Mutant(
        "fencing: a runner saves into a generation that is no longer read",
        "is_owner = int(fence or 0) == self._fence and live == self._generation",
        "is_owner = int(fence or 0) == self._fence",
        "test_a_store_that_lost_its_partition_saves_nothing",
    ),
    Mutant(
        "lease: taken although another worker holds it",
        "if holder and holder ~= ARGV[1] then return 0 end",
        "",
        "test_a_partition_is_leased_to_one_worker_until_it_gives_it_up",
    ),
    Mutant(
        "dedup: an id of the previous window is forgotten",
        "in_current[n] or in_previous[n] or fresh[id]",
        "in_current[n] or fresh[id]",
        "test_an_id_is_known_after_other_appends_while_it_is_within_half_the_bound",
    ),
    Mutant(
        "dedup: twice in one batch is stored twice",
        "in_current[n] or in_previous[n] or fresh[id]",
        "in_current[n] or in_previous[n]",
        "test_a_repeat_inside_one_batch_is_found_too",
    ),
    Mutant(
        "visibility: the tenant is not compared",
        'if getattr(document, "tenant", None) != reader.tenant:',
        "if False:",
        "test_who_may_read_a_memory",
    ),
    Mutant(
        "visibility: a key's projects are not compared",
        'if reader.key_scope.projects and getattr(document, "project", None) not in reader.key_scope.projects:',
        "if False:",
        "test_a_key_limited_to_projects_reads_only_those",
    ),
    Mutant(
        "visibility: a private memory is read by those it was once shared with",
        '*(self.shared_with if self.visibility == "shared" else ())',
        "*self.shared_with",
        "test_who_may_read_a_memory",
    ),
    Mutant(
        "visibility: isolated agents see what others wrote",
        'if reader.only_agent and getattr(document, "agent_id", "") != reader.only_agent:',
        "if False:",
        "test_in_isolated_scope_only_what_one_wrote_oneself_is_seen",
    ),
    Mutant(
        "tombstones: a late repeat brings a forgotten memory back",
        "case Memory(position=first) | Tombstone(position=first):",
        "case Memory(position=first):",
        "test_a_late_repeat_of_what_is_forgotten_stays_forgotten_and_is_erased",
    ),
    Mutant(
        "secrets: names in data that say password are not looked at",
        "plain = gather(value, texts) and plain",
        "gather(value, texts)",
        "test_secrets_are_gone_before_an_event_exists",
    ),
    Mutant(
        "secrets: a batch is not looked through",
        "small and are_clean(valid)",
        "small",
        "test_a_secret_is_removed_from_its_item_of_a_batch_and_the_others_stay_as_they_are",
    ),
    Mutant(
        "secrets: a name that holds one is stored",
        'if names == "keep" or (stripped := scrub_text(name)) == name:',
        'if (stripped := name) == name or names == "keep":',
        "test_a_known_token_in_a_name_is_refused_and_the_field_named",
    ),
    Mutant(
        "decay: lessons do not fade in their second week",
        "if weeks < 1:",
        "if weeks < 2:",
        "test_confidence_fades_by_the_week_down_to_a_floor",
    ),
    Mutant(
        "decay: a confirmed lesson is dropped",
        "return reinforcements == 0 and confidence <= RETIRE_AT",
        "return confidence <= RETIRE_AT",
        "test_only_a_faded_lesson_nobody_confirmed_is_retired",
    ),
    Mutant(
        "read your writes: one partition of the token is enough",
        "return all(applied.get(partition, START) >= position",
        "return any(applied.get(partition, START) >= position",
        "test_a_token_is_covered_when_every_partition_it_names_is",
    ),
    Mutant(
        "read your writes: a token keeps the older of two positions",
        "if partition not in self or self[partition] < position:",
        "if partition not in self or self[partition] > position:",
        "test_a_token_keeps_the_newest_position_of_a_partition",
    ),
    Mutant(
        "routing: every tenant's events have one id space",
        'return blake2b(f"{routing_key}\\0{event_id}".encode(), digest_size=16).hexdigest()',
        "return blake2b(event_id.encode(), digest_size=16).hexdigest()",
        "test_equal_event_ids_of_different_places_do_not_meet",
    ),
    Mutant(
        "overload: the gate lets every write in",
        "self.gate.check(tenant)",
        "pass",
        "test_a_write_is_refused_while_the_gate_is_shut_and_taken_when_it_opens",
    ),
    Mutant(
        "embedding: a text that was queued again is taken off the queue",
        "if score and tonumber(score) == tonumber(ARGV[n + 1]) then",
        "if score then",
        "test_a_document_whose_text_changed_meanwhile_stays_queued",
    ),
    Mutant(
        "checksum: of an entry with a trace it leaves out the sequence number",
        "(crc:sub(1, 10) + ms + seq) % 4294967296",
        "(crc:sub(1, 10) + ms) % 4294967296",
        "test_a_context_is_beside_the_event_and_only_where_there_is_one",
    ),
    Mutant(
        "checksum: an altered entry is read as it is",
        "return payload if whole else ALTERED + payload",
        "return payload",
        "test_an_altered_entry_is_marked_and_the_others_are_not",
    ),
    Mutant(
        "order: of one millisecond the tenth event comes before the second",
        "{self.ms:014d}-{self.seq:06d}",
        "{self.ms:014d}-{self.seq}",
        "test_the_sort_key_sorts_as_positions_do",
    ),
    Mutant(
        "upcasting: the last step is left out",
        "for step in range(version, newest):",
        "for step in range(version, newest - 1):",
        "test_a_first_memory_without_days_to_live_is_kept_for_ever test_the_first_memories_had_days_to_live",
    ),
    Mutant(
        "redelivery: what is behind the checkpoint is applied again",
        "if entry.position > self._checkpoint and entry.payload]",
        "if entry.payload]",
        "test_what_is_behind_the_checkpoint_is_acknowledged_and_not_folded_again",
    ),
    Mutant(
        "dead letters: one that fails is tried a sixth time",
        "if attempts == MAX_ATTEMPTS:",
        "if attempts > MAX_ATTEMPTS:",
        "test_an_event_that_cannot_be_applied_is_parked_after_exactly_five_attempts",
    ),
    Mutant(
        "group commit: a caller gets the positions of another's events",
        "[[next(rows[partition]) for partition, _ in write.entries] for write in group]",
        "[[appended[partition][n] for n, (partition, _) in enumerate(write.entries)] for write in group]",
        "test_concurrent_writes_share_appends",
    ),
    Mutant(
        "spool: files that say the same are stored once",
        'name.encode(errors="surrogateescape") + b"\\0" + content',
        "content",
        "test_without_one_the_event_id_is_the_same_at_every_look_and_differs_by_file_content_and_place",
    ),
    Mutant(
        "limits: metadata is counted in characters",
        "sum(len(key.encode()) + len(value.encode())",
        "sum(len(key) + len(value)",
        "test_metadata_is_bounded_in_bytes",
    ),
    Mutant(
        "superseding: a private note replaces what others read",
        "if new.visibility != old.visibility or new.user_id != old.user_id:",
        "if new.user_id != old.user_id:",
        "test_memories_of_other_readers_are_left_alone",
    ),
    Mutant(
        "superseding: a text that goes on states the same as its beginning",
        "return len(words) == len(others) and all(",
        "return all(",
        "test_any_other_word_states_something_else",
    ),
    Mutant(
        "forgetting: what was made of the forgotten stays",
        "[*derived_too, *sources, *others]",
        "[*sources, *others]",
        "test_a_consolidated_memory_loses_what_only_the_forgotten_said",
    ),
    Mutant(
        "rebuilding: a generation that is behind becomes the live one",
        "if reached != filled:",
        "if filled is None:",
        "test_a_generation_that_is_behind_is_not_switched_to",
    ),
    Mutant(
        "feed: entries are applied from the newest to the oldest",
        "steps.popleft()",
        "steps.pop()",
        "test_entries_are_applied_in_the_order_of_the_feed",
    ),
    Mutant(
        "snapshots: the files of the lexical index are not compared",
        "if _sha256(file) != expected:",
        "if file.parent != work and _sha256(file) != expected:",
        "test_an_altered_file_is_refused_whichever_it_is",
    ),
    Mutant(
        "ranking: a word that all say counts as much as a rare one",
        "+= idf * counts / (",
        "+= counts / (",
        "test_a_word_that_few_say_counts_more_than_one_that_all_say_often",
    ),
    Mutant(
        "visibility: an unnamed reader finds private memories",
        "if allowed.reader else restricted",
        "if allowed.reader else BitMap()",
        "test_restricting_a_memory_hides_it_at_once",
    ),
    Mutant(
        "tenants: postings count the documents of all",
        "matching = self._allowed[documents]",
        "matching = counts > 0",
        "test_postings_are_what_reading_every_document_gives_also_after_changes",
    ),
    Mutant(
        "pages: what follows a page is not looked for",
        "limit=limit + 1, newest_first=newest_first",
        "limit=limit, newest_first=newest_first",
        "test_a_reader_gets_all_that_it_may_see_and_no_cursor_names_what_it_may_not",
    ),
    Mutant(
        "read your writes: a read waits for any change",
        "await self._changed.wait_for(lambda: token.covered_by(self.applied))",
        "await self._changed.wait()",
        "test_a_read_waits_until_all_of_its_token_is_applied",
    ),
)


def main() -> None:
    """Try every mutant; print a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose name has this word")
    only: str = parser.parse_args().only
    chosen = [mutant for mutant in MUTANTS if only in mutant.name]
    with tempfile.TemporaryDirectory(prefix="mnemo-mutants-") as folder:
        copy = Path(folder) / "copy"
        _copy(copy)
        tests = {name for mutant in chosen for name in mutant.tests.split()}
        files = {name: _holding(_source_files(copy, ["tests"]), f"def {name}(") for name in tests}
        code, failed = _run(copy, files, sorted(name for name in tests if files[name]))
        if code != 0:
            sys.exit(f"the tests fail without a mutant: {failed or f'pytest ended with {code}'}")
        survivors = [mutant for mutant in chosen if not _caught(mutant, copy, files)]
    print(f"{len(survivors)} of {len(chosen)} survived" if survivors else f"caught: {len(chosen)} of {len(chosen)}")
    sys.exit(bool(survivors))


def _copy(copy: Path) -> None:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)


def _caught(mutant: Mutant, copy: Path, files: dict[str, list[Path]]) -> bool:
    places = _holding(_source_files(copy, PACKAGES), mutant.old)
    count = sum(path.read_text().count(mutant.old) for path in places)
    missing = [name for name in mutant.tests.split() if not files[name]]
    if count != 1 or missing:
        print(f"MOVED     {mutant.name}: its text is there {count} times; missing tests: {missing}", flush=True)
        return False
    original = places[0].read_text()
    places[0].write_text(original.replace(mutant.old, mutant.new))
    try:
        code, failed = _run(copy, files, mutant.tests.split())
    finally:
        places[0].write_text(original)
    caught = code == 1 and bool(failed)  # any other code: the tests could not be run
    print(f"{'caught   ' if caught else 'SURVIVED '} {mutant.name}: {failed or mutant.tests}", flush=True)
    return caught


def _run(copy: Path, files: dict[str, list[Path]], tests: Collection[str]) -> tuple[int, str]:
    """The exit code of pytest, and the first test that fails; nothing where all pass."""
    paths = sorted({str(path.relative_to(copy)) for name in tests for path in files[name]})
    if not paths:
        return 0, ""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"--timeout={SECONDS_A_TEST}"]
    command += ["-k", " or ".join(tests), *paths]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return done.returncode, "".join(failed[:1])


def _source_files(copy: Path, folders: Iterable[str]) -> list[Path]:
    return [path for folder in folders for path in (copy / folder).rglob("*") if path.suffix in (".py", ".lua")]


def _holding(paths: Iterable[Path], text: str) -> list[Path]:
    return [path for path in paths if text in path.read_text()]


if __name__ == "__main__":
    main()
