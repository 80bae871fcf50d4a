"""How many of the known shapes of secrets are removed, and how many ordinary texts are altered.

    python -m benchmarks.secrets [--megabytes 20] [--show 20] [--time] [FOLDER...]

Ordinary texts are chunks of about 1,500 characters of source code and prose: this project's own files, the packages
that are installed and the system's documentation, or the folders given. Every altered chunk counts as a false alarm,
also where the altered text is a secret (documentation and tests show keys), so the figure is an upper bound.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ingest.secrets.scrub import families_of, scrub_text
from tests.support.secret_held_out import HELD_OUT
from tests.support.secret_shapes import SHAPES, samples

CHUNK = 1_500
SUFFIXES = frozenset(
    (".py", ".pyi", ".md", ".rst", ".txt", ".js", ".ts", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".html",
     ".css", ".c", ".h", ".sh", ".lua")
)  # fmt: skip
PROSE = (
    "Checkout times out when Redis restarts; the client pool does not reconnect, and nobody saw it in the night. " * 5
)
CODE = Path(__file__).with_name("flat_memory.py")
HOSTILE = (
    "a", "=", "token=", "password: ", "<private>", "</private>", "Bearer ", "://a:", "-----BEGIN PRIVATE KEY-----",
    "token=aaaaaaa1", 'password="a', "eyJaaaaaaaaaaaa.", "cookie: a=bbbbbbbbb;", "machine a ", "mysql -u ", "discord ",
    "sentry=", "ghp_", "sk_live_aaaaaaaa", "xoxp-1", "glpat-", "password is ", "the password for a is b. ", "-u a:b ",
    "sk-a", 'auth\\"', "password is a ", "curl -u a:", "A1b2", "xoxb-", "é", " ", "\n", "\\",
)  # fmt: skip


def main() -> None:
    """Print the rates, and with --time what a text costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    for name, shapes in (("own shapes", SHAPES), ("held-out shapes", HELD_OUT)):
        caught(name, shapes)
    folders = given.folders or [Path(), Path(re.__file__).parent, *map(Path, sys.path), Path("/usr/share/doc")]
    false_alarms(folders, int(given.megabytes * 1_000_000), given.show)
    if given.time:
        times()


def caught(title: str, shapes: dict[str, str], seeds: int = 5) -> None:
    """Print how many shapes leave nothing behind, whatever the seed."""
    leaked = {one.name for seed in range(seeds) for one in samples(shapes, seed) if one.leaks(scrub_text(one.text))}
    print(f"{title}: {len(shapes) - len(leaked)} of {len(shapes)} removed ({1 - len(leaked) / len(shapes):.1%})")
    for name in sorted(leaked):
        print(f"  not removed: {name}")


def false_alarms(folders: list[Path], limit: int, show: int) -> None:
    """Print how many chunks are altered, by rule, and some of them."""
    chunks = altered = characters = places = 0
    rules: Counter[str] = Counter()
    for chunk in _chunks(folders, limit):
        chunks += 1
        characters += len(chunk)
        cleaned = scrub_text(chunk)
        if cleaned == chunk:
            continue
        altered += 1
        places += cleaned.count("[REDACTED") - chunk.count("[REDACTED")
        found = families_of(chunk)
        rules.update({name for name, _ in found})
        if altered <= show or show < 0:
            for name, span in found[:4]:
                print(f"  {name}: {chunk[max(0, span[0] - 40) : span[1] + 10]!r}")
    print(
        f"ordinary texts: {altered} of {chunks} altered ({altered / chunks:.2%}), "
        f"{places} places in {characters:,} characters"
    )
    for name, count in rules.most_common(25):
        print(f"  {name}: {count} texts")


def _chunks(folders: list[Path], limit: int) -> Iterator[str]:
    files = sorted({path for folder in folders for path in _files(folder)})
    size = sum(path.stat().st_size for path in files)
    every = max(1, size // limit)
    left, at = limit, 0
    for path in files:
        text = path.read_text("utf-8", "replace")
        for start in range(0, len(text), CHUNK):
            at += 1
            if at % every == 0 and left > 0:
                left -= CHUNK
                yield text[start : start + CHUNK]


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") and part != ".venv" for part in path.parts[1:])
        named = path.suffix in SUFFIXES or path.name in ("copyright", "README", "NEWS")
        if named and not hidden and path.is_file():
            yield path.resolve()


def times() -> None:
    """Print what ordinary texts cost, and hostile ones of 256 KiB and 1 MiB."""
    code = CODE.read_text()[2_000:2_500]
    for name, text in (("prose, 500 characters", PROSE[:500]), ("code, 500 characters", code)):
        best = min(_microseconds(text) for _ in range(7))
        print(f"{name}: {best:.2f} microseconds{'' if scrub_text(text) is text else ' (altered)'}")
    for unit in HOSTILE:
        small, large = (_seconds(unit * (size // len(unit)) + "Zz0123456789abcdefgh") for size in (1 << 18, 1 << 20))
        print(
            f"hostile {unit!r}: {small * 1000:.0f} ms for 256 KiB, {large * 1000:.0f} ms for 1 MiB "
            f"({large / small:.1f} times)"
        )


def _microseconds(text: str, repeats: int = 5_000) -> float:
    began = time.thread_time()
    for _ in range(repeats):
        scrub_text(text)
    return (time.thread_time() - began) / repeats * 1e6


def _seconds(text: str) -> float:
    began = time.thread_time()
    scrub_text(text)
    return time.thread_time() - began


if __name__ == "__main__":
    main()
