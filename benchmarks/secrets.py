"""Which secrets are removed, and which ordinary texts are altered."""

import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.figures import Figures, Row, benchmark
from ingest.secrets.scrub import scrub_text
from tests.support.secret_samples import listed, samples

CHUNK = 1_500
SEEDS = 5
SUFFIXES = (
    ".py", ".pyi", ".md", ".rst", ".txt", ".js", ".ts", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".html",
    ".css", ".c", ".h", ".sh", ".lua",
)  # fmt: skip
PROSE = (
    "Checkout times out when Redis restarts; the client pool does not reconnect, and nobody saw it in the night. " * 5
)
CODE = Path(__file__).with_name("serving.py")
HOSTILE = (
    "a", "=", "token=", "password: ", "<private>", "</private>", "Bearer ", "://a:", "-----BEGIN PRIVATE KEY-----",
    "token=aaaaaaa1", 'password="a', "eyJaaaaaaaaaaaa.", "cookie: a=bbbbbbbbb;", "machine a ", "mysql -u ", "discord ",
    "sentry=", "ghp_", "sk_live_aaaaaaaa", "xoxp-1", "glpat-", "password is ", "the password for a is b. ", "-u a:b ",
    "sk-a", 'auth\\"', "password is a ", "curl -u a:", "A1b2", "xoxb-", "é", " ", "\n", "\\",
)  # fmt: skip


def _chunks(folders: Iterable[Path], limit: int) -> Iterator[str]:
    """Text from all files, taken evenly, up to a limit of characters."""
    files = sorted({path for folder in folders for path in _files(folder)})
    every = max(1, sum(path.stat().st_size for path in files) // limit)
    number = 0
    for path in files:
        text = path.read_text("utf-8", "replace")
        for start in range(0, len(text), CHUNK):
            number += 1
            if number % every == 0 and limit > 0:
                limit -= CHUNK
                yield text[start : start + CHUNK]


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") and part != ".venv" for part in path.parts[1:])
        named = path.suffix in SUFFIXES or path.name in ("copyright", "README", "NEWS")
        if named and not hidden and path.is_file():
            yield path.resolve()


def _seconds(text: str, repeats: int = 1) -> float:
    began = time.thread_time()
    for _ in range(repeats):
        scrub_text(text)
    return (time.thread_time() - began) / repeats


@benchmark(
    Row("listed shapes of secrets that are removed", "own_removed", "%", at_least=95),
    Row("held-out shapes of secrets that are removed", "held_out_removed", "%", at_least=95),
    Row("ordinary texts that are altered", "altered", "%", at_most=1),
    Row("scrubbing 500 characters of prose", "prose_us", "us"),
    Row("scrubbing 500 characters of code", "code_us", "us"),
    Row("slowest hostile text of 1 MiB", "hostile_s", "s"),
    quick={"megabytes": 0.5, "hostile_kib": 64},
)
def secrets(megabytes: float = 20, hostile_kib: int = 1024, folder: str = "") -> Figures:
    """Which secrets are removed, which ordinary texts are altered, and how long does that take?

    Ordinary texts are chunks of 1,500 characters of source code and prose: of this project, the installed packages and
    `/usr/share/doc`, or of `--folder`. Every altered chunk counts, even if it has a secret, so the figure is an upper
    bound. Times are processor time.
    """
    figures: Figures = {}
    for name, shapes in (("own", listed("shapes")), ("held_out", listed("held_out"))):
        tried = (sample for seed in range(SEEDS) for sample in samples(shapes, seed))
        leaked = sorted({sample.name for sample in tried if sample.leaks(scrub_text(sample.text))})
        figures |= {f"{name}_removed": round(100 * (1 - len(leaked) / len(shapes)), 2), f"{name}_not_removed": leaked}
    everywhere = [Path(), Path(re.__file__).parent, *map(Path, sys.path), Path("/usr/share/doc")]
    chunks = altered = 0
    for chunk in _chunks([Path(folder)] if folder else everywhere, int(megabytes * 1_000_000)):
        chunks += 1
        altered += scrub_text(chunk) != chunk
    code = CODE.read_text()[2_000:2_500]
    size = hostile_kib << 10
    slowest = {unit: _seconds(unit * (size // len(unit)) + "Zz0123456789abcdefgh") for unit in HOSTILE}
    worst = max(slowest, key=lambda unit: slowest[unit])
    return {
        **figures,
        "chunks": chunks,
        "altered": round(100 * altered / chunks, 3),
        "prose_us": round(1e6 * min(_seconds(PROSE[:500], 5_000) for _ in range(7)), 2),
        "code_us": round(1e6 * min(_seconds(code, 5_000) for _ in range(7)), 2),
        "hostile_s": round(slowest[worst], 3),
        "slowest_hostile": repr(worst),
    }
