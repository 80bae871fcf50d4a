"""The comparison with other systems: a library in its process, what survives a kill, and the table."""

import sys
from pathlib import Path

import pytest

from benchmarks.figures import Figures
from benchmarks.peers.comparing import comparison, corpus_note, delete, kill
from benchmarks.peers.systems import Installed, Library

BM25 = Installed("rank-bm25", Path(sys.executable))
MACHINE = {"cores": 2, "processor": "EPYC", "memory_gib": 24, "system": "Linux 6.1", "python": "3.11.7", "load": 0.1}


def test_a_library_answers_calls_of_several_threads():
    with BM25.new() as library:
        notes = [corpus_note(number) for number in range(20)]
        assert library.call("write", notes, 4).answers == {number: f"peers-{number}" for number in range(20)}
        calls = library.call("search", [(notes[7].project, notes[7].text, 3)], 1)
        assert calls.answers[0][0] == "peers-7"
        assert (len(calls.load.times), calls.load.refused, calls.error) == (1, 0, "")


def test_a_call_that_fails_is_counted_and_the_others_are_answered():
    with BM25.new() as library:
        library.call("write", [corpus_note(1)], 1)
        calls = library.call("delete", [["peers-2"], ["peers-1"]], 1)
        assert (set(calls.answers), calls.load.refused, calls.error) == ({1}, 1, "KeyError: 'peers-2'")


def test_a_killed_library_ends_its_calls_and_has_what_it_acknowledged():
    figures = kill(BM25, storm=5_000, storm_s=0.3)
    assert 0 < figures["acknowledged"] < 5_000
    assert figures["missing"] == 0


def test_a_library_that_ends_without_a_kill_is_an_error():
    library = Library("no such library", Path(sys.executable))
    with pytest.raises(RuntimeError, match="KeyError: 'no such library'"), library:
        pass


def test_the_table_has_the_best_value_in_bold_and_says_what_failed():
    figures: Figures = {"taken": "2026-01-31", "commit": "abc", "machine": MACHINE, "not_measured": {"other": "no"}}
    ours, theirs = {"write_1_per_s": 200.0, "memory_mb": 300}, {"write_1_per_s": 300.0, "write_1_refused": 2}
    others: Figures = {"kill": {"error": "it hangs"}, "delete": {"files_left": 1, "left_in": "chroma.sqlite3"}}
    figures["systems"] = {"mnemolog": {"load": ours}, "chroma": {"load": theirs, **others}}
    text = comparison(figures)
    assert "| writes until findable, 1 client | 200/s | **300/s** | `load` |" in text
    assert "| memory of all processes (PSS) | 300 MB |  | `load` |" in text
    notes = {"- chroma: 2 calls of `write` failed, clients: 1.", "- chroma: kill failed: it hangs."}
    notes.add("- chroma: words of the deleted note are in chroma.sqlite3.")
    assert {*notes, "- Not measured: other: no."} < set(text.splitlines())


def test_a_deletion_leaves_nothing_of_a_note_in_the_file_of_rank_bm25():
    figures = delete(BM25)
    assert figures == {"still_returned": False, "files_before": 1, "files_left": 0, "erased_s": figures["erased_s"]}
