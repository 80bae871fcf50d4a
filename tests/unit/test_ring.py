"""Which tests of the ring run for a change."""

from tests.ring.rooms import ROOT, TABLE, touched

ROOMS: dict[str, list[str]] = TABLE["rooms"]
FOLDERS = [f"tests/ring/{room}/" for room in ROOMS]


def test_every_folder_of_tests_is_a_room_and_every_path_exists():
    assert [*ROOMS] == sorted(path.name for path in (ROOT / "tests/ring").iterdir() if any(path.glob("test_*.py")))
    for path in sum([*ROOMS.values(), *TABLE["doors"].values()], TABLE["everything"]):
        assert (ROOT / path).exists(), path


def test_a_change_of_a_room_or_of_its_tests_touches_that_room_alone():
    for room, paths in ROOMS.items():
        paths = [*paths, *TABLE["doors"].get(room, ())]
        for name in (f"tests/ring/{room}/test_x.py", *(f"{path}x" if path.endswith("/") else path for path in paths)):
            assert touched([name, "ingest/ids.py"]) == [f"tests/ring/{room}/"], name


def test_a_change_of_the_core_touches_no_room_and_one_of_what_all_need_every_room():
    assert touched(["ingest/ids.py", "tests/unit/ingest/test_ids.py"]) == []
    assert touched(["tests/support/waiting.py"]) == FOLDERS
