"""The version is the same wherever it is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.version import PLACES, SOURCE, VERSION, state, stated

ROOT = Path(__file__).parents[3]
NOW = next(stated(ROOT))[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with every place that names a version."""
    for path, _ in stated(ROOT):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text())
    return tmp_path


def checked(version: str) -> subprocess.CompletedProcess[str]:
    """What a release asks before it publishes."""
    command = [sys.executable, "tools/version.py", "--check", version]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)


def test_every_place_names_the_version_of_the_package():
    assert VERSION.fullmatch(NOW)
    assert {said for _, said in stated(ROOT)} == {NOW}
    assert checked(NOW).returncode == 0


def test_another_version_is_refused_with_the_places_that_say_something_else():
    told = checked("9.9.9")
    assert told.returncode == 1
    assert f"{SOURCE} says {NOW}, " in told.stderr


def test_a_version_is_set_in_every_place_and_nothing_else_changes(tree: Path):
    before = {path: (tree / path).read_text() for path, _ in stated(tree)}
    state(tree, "9.9.9")
    assert [said for _, said in stated(tree)] == ["9.9.9"] * len(PLACES) + [NOW]  # the last is the changelog
    state(tree, NOW)
    assert {path: (tree / path).read_text() for path in before} == before


def test_a_place_that_names_no_version_is_an_error(tree: Path):
    (tree / SOURCE).write_text("[project]\n")
    with pytest.raises(SystemExit, match=r"pyproject\.toml names no version"):
        state(tree, "9.9.9")
