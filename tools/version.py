"""Says in every place which version this is. pyproject.toml is where to look; processes ask the installed package.

python tools/version.py                  # prints it
python tools/version.py 0.2.0            # sets it; CHANGELOG.md is written by hand
python tools/version.py --check 0.2.0    # exits 1 and names the places that say something else
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "pyproject.toml"
PLACES = (
    (SOURCE, r'^version = "(.+)"$'),
    (SOURCE, r'^    "mnemolog-client==(.+)",$'),
    ("clients/python/pyproject.toml", r'^version = "(.+)"$'),
    ("clients/typescript/package.json", r'^  "version": "(.+)",$'),
    ("api/agents/plugin/.claude-plugin/plugin.json", r'^  "version": "(.+)",$'),
    ("api/agents/.codex-plugin/plugin.json", r'^  "version": "(.+)",$'),
    ("gemini-extension.json", r'^  "version": "(.+)",$'),
    ("compose.yaml", r"^  mnemolog: &mnemolog mnemolog:(.+)$"),
    ("deploy/helm/mnemolog/Chart.yaml", r"^appVersion: (.+)$"),
)
"""Where a release is named."""
NEWEST_CHANGES = r"^## (\S+) - "
VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def stated(root: Path) -> Iterator[tuple[str, str]]:
    """Every place and what it says, the newest heading of the changelog last; "" where it says nothing."""
    for path, pattern in (*PLACES, ("CHANGELOG.md", NEWEST_CHANGES)):
        found = re.search(pattern, (root / path).read_text(), re.MULTILINE)
        yield path, found[1] if found else ""


def state(root: Path, version: str) -> None:
    """Have every place but the changelog say this version."""
    for path, pattern in PLACES:
        text = (root / path).read_text()
        found = re.search(pattern, text, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{path} names no version")
        (root / path).write_text(text[: found.start(1)] + version + text[found.end(1) :])


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            print(next(stated(ROOT))[1])
        case ["--check", version]:
            if others := [f"{path} says {said or 'nothing'}" for path, said in stated(ROOT) if said != version]:
                raise SystemExit(f"this is not {version} everywhere: {', '.join(others)}")
        case [version] if VERSION.fullmatch(version):
            state(ROOT, version)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
