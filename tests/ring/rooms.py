"""Prints the folders of tests/ring that a change touches: `python tests/ring/rooms.py [BASE]`.

`tests/ring/rooms.toml` says which files each room is made of. Without BASE, a commit, prints all folders.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE: dict[str, Any] = tomllib.loads((ROOT / "tests/ring/rooms.toml").read_text())


def touched(names: Iterable[str]) -> list[str]:
    """Return the folders of the rooms that one of the named files belongs to."""
    changed = list(names)
    folders: list[str] = []
    for room, paths in TABLE["rooms"].items():
        folder = f"tests/ring/{room}/"
        watched = (folder, *paths, *TABLE["doors"].get(room, ()), *TABLE["everything"])
        if any(name.startswith(watched) for name in changed):
            folders.append(folder)
    return folders


def main() -> None:
    """Print the folders in one line."""
    tracked = ["diff", "--name-only", *sys.argv[1:], "--"] if sys.argv[1:] else ["ls-files"]
    print(*touched([*_git(*tracked), *_git("ls-files", "--others", "--exclude-standard")]))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    main()
