"""The newest acknowledged positions, in a file."""

from pathlib import Path

from ingest.embedded.log_file import FILE, Acknowledged, load_acknowledged, save_acknowledged
from ingest.log.event_log import Appended
from ingest.log.position import Position


def rows(*positions: Position) -> list[Appended]:
    return [Appended(position, duplicate=False) for position in positions]


def test_the_newest_position_of_each_partition_is_kept(tmp_path: Path):
    kept = Acknowledged(tmp_path)
    kept.note({0: rows(Position(5, 0), Position(5, 1)), 1023: rows(Position(7, 3))})
    kept.note({0: rows(Position(4, 9))})  # a repeat is told the first position
    kept.close()
    assert load_acknowledged(tmp_path) == {0: Position(5, 1), 1023: Position(7, 3)}
    again = Acknowledged(tmp_path)
    again.note({0: rows(Position(5, 0)), 1: rows(Position(6, 0))})
    again.close()
    assert load_acknowledged(tmp_path) == {0: Position(5, 1), 1: Position(6, 0), 1023: Position(7, 3)}


def test_positions_are_set_back_to_what_is_there(tmp_path: Path):
    save_acknowledged(tmp_path, {2: Position(9, 9)})
    save_acknowledged(tmp_path, {2: Position(8, 0), 0: Position(0, 0)})
    assert load_acknowledged(tmp_path) == {2: Position(8, 0)}


def test_a_file_cut_in_a_record_keeps_the_whole_ones(tmp_path: Path):
    save_acknowledged(tmp_path, {0: Position(1, 1), 1: Position(2, 2)})
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:20])
    assert load_acknowledged(tmp_path) == {0: Position(1, 1)}


def test_without_a_file_nothing_was_acknowledged(tmp_path: Path):
    assert load_acknowledged(tmp_path) == {}
