"""Makes the default model: `python -m projections.embedding.export [directory]`. Takes seconds and both cores, so it is
run as a process, which prints on stdout what it is doing.

Guarantee: the directory holds a whole, checked model or is as it was before. Several processes may export at once: one
works, the others wait for it and find its model.

The model is int8. It is compared with the same weights in float32 on a sample of texts, because the arithmetic is the
processor's; where it is not exact enough, the float32 graph is the model, under another name.
"""

import argparse
import fcntl
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from projections.embedding.distill import distill, write_graph
from projections.embedding.onnx import OnnxEmbedder
from projections.vectors.embedder import Embedder, ModelUnavailable
from projections.vectors.model_files import (
    DEFAULT_MODEL,
    EXPORTER,
    FLOAT_MODEL,
    FLOAT_MODEL_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    default_directory,
    is_current,
    packaged_model,
    read_manifest,
    sha256_of,
)

REQUIRED_MEAN_COSINE = 0.985
"""0.997 is usual; one scale per weight instead of per column, say, gave 0.946."""
COMPARED = slice(None, None, 3)
"""Every third of the sample texts, long ones among them. All take seconds in float32, and arithmetic that is not exact
enough shows in any."""


def export(
    directory: Path,
    required_mean_cosine: float = REQUIRED_MEAN_COSINE,
    on_progress: Callable[[str], None] = lambda what: None,
) -> ModelManifest:
    """The manifest of the model that is in the directory afterwards; does nothing when a whole one is there.

    ModelUnavailable without the packaged weights. `on_progress` is told what is being done.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.parent / f".{directory.name}.lock", lambda: on_progress("another process does; waiting")):
        if not is_current(directory):
            with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
                made = write_model(Path(scratch), required_mean_cosine, on_progress)
                put_in_place(made, directory, Path(scratch) / "old")
        return read_manifest(directory)


@contextmanager
def locked(path: Path, on_wait: Callable[[], None]) -> Generator[None]:
    """Hold the file's lock, which ends with the process whatever happens to it. The file stays: removing it races."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put_in_place(made: Path, directory: Path, set_aside: Path) -> None:
    """Put the made directory where another may be. Needs the lock: the place is empty for a moment."""
    if directory.exists():
        directory.replace(set_aside)
    made.replace(directory)


def write_model(scratch: Path, required_mean_cosine: float, on_progress: Callable[[str], None]) -> Path:
    """The directory of the whole model, below `scratch`: int8, or float32 where that is not exact enough."""
    source = packaged_model()
    on_progress("the graph, from the packaged weights")
    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write_graph_of, source, scratch, model) for model in (DEFAULT_MODEL, FLOAT_MODEL)]
        int8, original = (written.result() for written in writing)
        on_progress("comparing int8 with float32")
        cosines = agreement(OnnxEmbedder(int8), OnnxEmbedder(original), threads)
    mean, lowest = float(cosines.mean()), float(cosines.min())
    directory = int8
    if mean < required_mean_cosine:
        on_progress(f"float32 is used, which is slower: int8 has cosine {mean:.4f} to it, not {required_mean_cosine}")
        directory, mean, lowest = original, 1.0, 1.0
    manifest = read_manifest(directory)
    distill(directory, directory / manifest.graph, on_progress)
    static = {name: sha256_of(directory / name) for name in (STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)}
    files = {**manifest.files, **static}
    write_manifest(directory, replace(manifest, files=files, mean_cosine=mean, lowest_cosine=lowest))
    return directory


def write_graph_of(source: Path, parent: Path, model: str) -> Path:
    """A new directory in `parent` with the graph and the tokenizer of `source`, and a manifest that names them."""
    directory = parent / ("int8" if model == DEFAULT_MODEL else "float32")
    directory.mkdir()
    graph = MODEL_FILE if model == DEFAULT_MODEL else FLOAT_MODEL_FILE
    write_graph(source, directory / graph, int8=model == DEFAULT_MODEL)
    shutil.copyfile(source / "tokenizer.json", directory / TOKENIZER_FILE)
    manifest = ModelManifest(
        model=model,
        dimensions=json.loads((source / "config.json").read_bytes())["hidden_size"],
        max_tokens=json.loads((source / "sentence_bert_config.json").read_bytes())["max_seq_length"],
        files={name: sha256_of(directory / name) for name in (graph, TOKENIZER_FILE)},
        source_sha256=sha256_of(source / "model.safetensors"),
        exporter=EXPORTER,
        mean_cosine=0,
        lowest_cosine=0,
    )
    write_manifest(directory, manifest)
    return directory


def write_manifest(directory: Path, manifest: ModelManifest) -> None:
    (directory / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def agreement(one: Embedder, other: Embedder, threads: Executor) -> NDArray[np.float32]:
    """(n,) cosine between the two embedders' vectors of each text that is compared; each embeds in its own thread."""
    texts = sample_texts()[COMPARED]
    ones, others = threads.submit(one.embed, texts), threads.submit(other.embed, texts)
    return (ones.result() * others.result()).sum(axis=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Export the packaged MiniLM to int8 ONNX.")
    parser.add_argument("directory", type=Path, nargs="?", default=default_directory())
    directory: Path = parser.parse_args().directory
    try:
        manifest = export(directory, on_progress=lambda what: print(what, flush=True))
    except (ModelUnavailable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{manifest.model} in {directory}, mean cosine to float32 {manifest.mean_cosine:.4f}")
    return 0


SHORT = """\
ok
Done.
no tests ran
What broke the build?
the user prefers tabs over spaces
Deploys happen on Tuesday mornings.
Who owns the billing service?
Yes, merge it, but squash the commits first.
Grandmother's birthday is on the ninth of March.
He moved from Lisbon to Oslo last autumn.
The tea shop on the corner closed for good.
Remind me to water the plants.
I never want to see a modal dialog again!
permission denied
42
TODO: remove this once the migration is over"""

PROSE = """\
The connection pool was exhausted because a transaction stayed open while the worker waited for a remote call.
We agreed that every public function gets a one-line docstring, and that private ones only get one when it helps.
Customers in Brazil saw prices in euros for two hours after the release, until the currency cache was flushed.
She asked for the quarterly report as a spreadsheet, not as a slide deck, and wants the raw numbers on the second sheet.
When the disk is nearly full the database refuses writes but keeps answering reads, so the health check stays green.
My daughter started playing the cello, and we are looking for a used instrument in a three-quarter size.
Integration tests need a running Redis; start one with the compose file in the deploy folder before you run them.
The retry loop doubled every message, since the server had stored the first attempt and only the answer was lost.
After the hike we stopped at a small lake, swam for an hour and ate the last of the bread and cheese.
Please keep answers short: a sentence or two, then the command, without an introduction or a summary.
The flaky test depends on the order of dictionary keys that come back from the old client library.
Our landlord promised to repair the heating before November, but nobody has come to look at it yet.
Lesson learned: pin the base image by digest, because the tag was moved and the next build failed in production.
The patient reported mild headaches in the morning which went away after reducing the dose.
Interest rates rose by a quarter of a percentage point, less than most economists had expected.
Bees visit the lavender first thing in the morning and the tomatoes only when it is warm.
The agent read the file twice, edited the wrong function, ran the tests, noticed, and reverted its change.
An index replica that fell behind loads the newest snapshot and then follows the feed from the position in it.
Nobody could explain why the cron job ran twice, until somebody found a second copy on the old machine.
He apologised for missing the call; his train had stopped for an hour in a tunnel without any reception.
The museum opens at ten, is closed on Mondays, and lets children under twelve in for free.
Prefer composition to inheritance here: the three exporters share two helpers and nothing else.
The token had expired, the refresh failed with a 401, and the client then hammered the login page.
Marta will present the roadmap, Yusuf answers technical questions, and I take the notes."""

TECHNICAL = """\
def retention(age: timedelta, half_life: timedelta) -> float: return 0.5 ** (age / half_life)
SELECT session_id, count(*) FROM observations WHERE kind = 'error' GROUP BY 1 ORDER BY 2 DESC LIMIT 20;
git rebase --onto main feature~3 feature && git push --force-with-lease origin feature
/usr/local/lib/python3.11/site-packages/httpx/_transports/default.py:118: ConnectTimeout
src/components/checkout/PaymentForm.tsx(88,14): error TS2345: Argument of type 'string' is not assignable
{"tool": "Edit", "file": "api/native/memories.py", "ok": true, "ms": 182, "lines": [14, 15, 22]}
kubectl -n payments rollout undo deployment/ledger --to-revision=17
Traceback (most recent call last): File "app.py", line 7, in <module>: KeyError: 'REDIS_URL'
for (let i = 0; i < rows.length; i++) { if (rows[i].id === wanted) return rows[i]; } return null;
https://example.org/docs/v2/search?query=vector%20index&limit=10#filters
impl Iterator for Positions { type Item = u64; fn next(&mut self) -> Option<u64> { self.inner.pop() } }
ERROR 2026-03-14T09:26:53Z worker-3 lease lost partition=p07 token=41 owner=worker-5
3f786850e387550fdab836ed7e6dc881de23001b is the commit that introduced the regression
pip install "redis>=5.3,<6" failed: no matching distribution found for hiredis==3.4.0
export PATH="$HOME/.local/bin:$PATH"; exec "$SHELL" -l
<div class="card"><h2>{{ title }}</h2><p>{{ body | truncate(80) }}</p></div>
E = mc^2, and the integral of x^2 from 0 to 1 is 1/3
C:\\Users\\dev\\AppData\\Local\\Temp\\build-7731\\output.log"""

UNICODE = """\
Der Käufer möchte die Rechnung als PDF, nicht per Post.
La réunion a été déplacée à jeudi, à cause de la grève des trains.
Пользователь предпочитает тёмную тему и короткие ответы.
用户喜欢在早上喝绿茶，不喜欢咖啡。
本番環境のデプロイは毎週火曜日です。
배포가 실패해서 이전 버전으로 되돌렸습니다.
ابدأ الخادم قبل تشغيل الاختبارات
El café está cerrado por vacaciones hasta el próximo año ☕
Deploy went fine 🚀🚀 but the cat 🐈 walked over the keyboard
naïve façade, coöperate, São Paulo, Zürich, Łódź, İstanbul
“Curly quotes” — em dashes – and an ellipsis…
∀x ∈ ℝ: x² ≥ 0 ∧ √2 ∉ ℚ"""


def sample_texts() -> list[str]:
    """At least 64 different texts: short, prose, code, logs, other scripts, beyond the model's window."""
    groups = [group.splitlines() for group in (SHORT, PROSE, TECHNICAL, UNICODE)]
    prose = groups[1]
    middling = [" ".join(prose[start : start + 4]) for start in range(0, len(prose), 6)]
    long = [" ".join(prose), "\n".join(groups[2]), " ".join(prose[::-1] + groups[0])]
    return [text for group in groups for text in group] + middling + long


if __name__ == "__main__":
    sys.exit(main())
