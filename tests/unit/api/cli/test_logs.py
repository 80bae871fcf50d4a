"""Which lines of the logs are shown, and in what order."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from api.cli import config as logs
from api.cli.config import Line, followed, last_lines, log_files, stamp

OURS = "2026-11-24 06:52:15,185 INFO api: up"
VALKEYS = "20811:M 24 Nov 2026 06:52:13.059 * Ready to accept connections"


def test_times_of_our_processes_and_of_valkey_compare():
    assert stamp(VALKEYS) == "2026-11-24T06:52:13.059"
    assert stamp(OURS) == "2026-11-24T06:52:15.185"
    written = datetime(2026, 11, 24, 6, 52, 14, 7_000).astimezone(UTC).isoformat(timespec="milliseconds")
    assert stamp(f'{{"time": "{written}", "level": "INFO"}}') == "2026-11-24T06:52:14.007"
    assert stamp("Traceback (most recent call last):") == ""


def test_the_log_of_each_process_is_found_by_its_name(tmp_path: Path):
    for name in ("logs/api.log", "logs/worker-2.log", "valkey/valkey.log", "valkey/other.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list(log_files(tmp_path)) == ["api", "worker-2", "valkey"]
    assert log_files(tmp_path / "nothing") == {}


def test_a_line_without_a_time_stays_with_the_one_before(tmp_path: Path):
    path = tmp_path / "api.log"
    path.write_text(f"early\n{OURS}\n  a traceback\n")
    at = stamp(OURS)
    lines = list(last_lines("api", path, 10, path.stat().st_size))
    assert lines == [Line("", "api", "early"), Line(at, "api", OURS), Line(at, "api", "  a traceback")]
    assert [one.text for one in last_lines("api", path, 1, path.stat().st_size)] == ["  a traceback"]
    assert list(last_lines("api", path, 0, path.stat().st_size)) == []


def test_of_a_huge_log_only_the_end_is_read_and_no_half_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logs, "MOST_BYTES", 20)
    path = tmp_path / "api.log"
    path.write_text("0123456789\n" * 10)
    assert [one.text for one in last_lines("api", path, 10, 110)] == ["0123456789"]


def test_what_is_written_later_follows_by_whole_lines_also_in_a_file_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "api.log"
    path.write_text("before\n")
    steps = iter([lambda: path.write_text("before\none\ntw"), lambda: path.write_text("before\none\ntwo\n"),
                  lambda: path.write_text("cut\n")])  # fmt: skip

    def write_on(seconds: float) -> None:
        next(steps)()

    monkeypatch.setattr(logs.time, "sleep", write_on)
    lines = followed({"api": path}, {"api": path.stat().st_size})
    assert [one.text for one in islice(lines, 3)] == ["one", "two", "cut"]
