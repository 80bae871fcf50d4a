"""Compares mnemolog with other memory systems: the same data, the same machine, one process after the other."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.corpus import SEED, observation, question
from benchmarks.figures import Figures, Row, benchmark, number, written
from benchmarks.peers.systems import NOT_MEASURED, PEERS, Calls, Installed, Note, System, install, note_of
from benchmarks.plan import ROOT, replaced
from benchmarks.relevance import CUTS, OVERALL, answerable, figures_of, histories
from benchmarks.servers import commit, machine, memory_of, processor_of, size_of
from ingest.platform.settings import from_environment

QUESTIONS = ("install", "recall", "load", "kill", "delete")
CLIENTS = (1, 8, 64)
KILLED_WRITERS, LIMIT, WARM_UP, FILLERS, BESIDE, WORDS = 16, 10, 20, 4, 200, 20
FIND_WITHIN_S, ERASE_WITHIN_S, LOOK_EVERY_S = 120.0, 120.0, 1.0


def corpus_note(number: int) -> Note:
    """A note of the corpus; in each of seven projects are many."""
    return note_of(observation("peers", number))


def findable(system: System, note: Note) -> None:
    """Return when a search with the note's own text returns it. Raises RuntimeError if it does not in time."""
    deadline = time.monotonic() + FIND_WITHIN_S
    while note.name not in system.call("search", [(note.project, note.text, LIMIT)], 1).answers.get(0, ()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{system.name} does not find what it stored")
        time.sleep(0.01)


def first_answer(installed: Installed) -> Figures:
    """The time from the start of an empty system to the first search that returns the first note."""
    began = time.perf_counter()
    with installed.new() as system:
        system.call("write", [corpus_note(0)], 1)
        findable(system, corpus_note(0))
        return {**installed.figures, "first_answer_s": round(time.perf_counter() - began, 1)}


def recall(installed: Installed, data: Mapping[str, Path], conversations: int) -> Figures:
    """How much of the evidence is among the first results, as `relevance` counts it."""
    figures = Figures()
    for name, path in data.items():
        chosen = histories(path, "peers")[: conversations or None]
        events = [event for history in chosen for event in history.events]
        turns = {event["event_id"]: event["metadata"]["turn"] for event in events}
        questions = [it for history in chosen for it in answerable(history.questions)]
        with installed.new() as system:
            _done(system.call("write", [note_of(event) for event in events], FILLERS), len(events))
            system.settle(vectors=True)
            queries = [(f"peers:{it.sample}", it.text, max(CUTS)) for it in questions]
            answers = _done(system.call("search", queries, 1), len(questions)).answers
        names = [[turns[name] for name in answers[index]] for index in range(len(questions))]
        shares = [{k: it.share(turns[:k]) for k in CUTS} for it, turns in zip(questions, names, strict=True)]
        figures[name] = {"turns": len(events), **figures_of(questions, shares)[OVERALL]}
    return figures


def load(installed: Installed, count: int, searches: int) -> Figures:
    """Writes until they can be found, searches, and memory after them, in one store."""
    notes, figures, dice = [corpus_note(index) for index in range(count)], Figures(), random.Random(SEED)
    with installed.new() as system:
        used = processor_of(system.pid)
        for third, clients in enumerate(CLIENTS):
            part, began = notes[third :: len(CLIENTS)], time.perf_counter()
            calls = _done(system.call("write", part, clients), 1)
            system.settle()
            findable(system, part[max(calls.answers)])
            figures[f"write_{clients}_per_s"] = round(len(calls.answers) / (time.perf_counter() - began), 1)
            figures[f"write_{clients}_refused"] = calls.load.refused
        began = time.perf_counter()
        system.settle(vectors=True)
        if system.name == "mnemolog":  # the others make vectors within the write, or have none
            figures["vectors_s"] = round(time.perf_counter() - began, 1)
        figures["write_ms"] = round(1000 * (processor_of(system.pid) - used) / count, 2)
        figures["note_kb"] = round(size_of(system.folder) / count / 1000, 2)
        system.call("search", [(notes[0].project, question(0), LIMIT)] * WARM_UP, 1)
        used = processor_of(system.pid)
        for clients in CLIENTS:
            numbers = [dice.randrange(count) for _ in range(searches)]
            queries = [(notes[index].project, question(index), LIMIT) for index in numbers]
            searched = system.call("search", queries, clients).load
            figures |= {**searched.figures(f"search_{clients}"), f"search_{clients}_refused": searched.refused}
        figures["search_ms"] = round(1000 * (processor_of(system.pid) - used) / searches / len(CLIENTS), 2)
        figures["memory_mb"] = round(memory_of(system.pid) / 1e6)
    return figures


def kill(installed: Installed, storm: int, storm_s: float) -> Figures:
    """What is missing after `kill -9` of all processes in the middle of writes, of what was acknowledged."""
    notes = [corpus_note(index) for index in range(storm)]
    with installed.new() as system:
        timer = threading.Timer(storm_s, system.kill)
        answers = system.call("write", notes, KILLED_WRITERS, timer.start).answers
        timer.join()
        began = time.perf_counter()
        system.start()
        system.settle()
        figures: Figures = {"acknowledged": len(answers), "restart_s": round(time.perf_counter() - began, 1)}
        present = system.call("has", [[name] for name in answers.values()], FILLERS).answers
        return figures | {"missing": len(answers) - sum(present.values())}


def delete(installed: Installed) -> Figures:
    """How many files still have words of a deleted note after the system was stopped.

    The note has words that occur nowhere else. A system that erases in the background has two minutes for it.
    """
    dice = random.Random(SEED)
    words = ["".join(dice.choices("bcdfghjklmnpqrstvwxz", k=12)) for _ in range(WORDS)]
    marked = note_of({**corpus_note(BESIDE).event, "content": " ".join(words)})
    with installed.new() as system:
        system.call("write", [corpus_note(index) for index in range(BESIDE)], FILLERS)
        (name,) = system.call("write", [marked], 1).answers.values()
        system.settle(vectors=True)
        findable(system, marked)
        before = files_with(system.folder, words)
        began = time.perf_counter()
        _done(system.call("delete", [[name]], 1), 1)
        system.settle()
        results = system.call("search", [(marked.project, marked.text, LIMIT)], 1).answers[0]
        deadline = began + (ERASE_WITHIN_S if system.name == "mnemolog" else 0)  # libraries do nothing in between
        while files_with(system.folder, words) and time.perf_counter() < deadline:
            time.sleep(LOOK_EVERY_S)
        seconds = time.perf_counter() - began
        system.stop()
        left = files_with(system.folder, words)
    figures: Figures = {"still_returned": marked.name in results, "files_before": len(before), "files_left": len(left)}
    return figures | ({"left_in": ", ".join(left)} if left else {"erased_s": round(seconds, 1)})


def files_with(folder: Path, words: Sequence[str]) -> list[str]:
    """The names of the files that have any of the words in their bytes; compressed files are not unpacked."""
    names = list[str]()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            content = path.read_bytes() if path.is_file() else b""
            names += [path.name] * any(word.encode() in content for word in words)
    return sorted(names)


def _done(calls: Calls, count: int) -> Calls:
    if len(calls.answers) < count:
        raise RuntimeError(f"{count - len(calls.answers)} of {count} calls failed: {calls.error}")
    return calls


LINES: tuple[tuple[str, str, str, Callable[..., float] | None], ...] = (
    ("size of the environment", "install.environment_mb", "MB", min),
    ("installing, wheels in the cache", "install.install_s", "s", min),
    ("first start to first answer", "install.first_answer_s", "s", min),
    *((f"writes until findable, {n} client{'s' * (n > 1)}", f"load.write_{n}_per_s", "/s", max) for n in CLIENTS),
    ("after that until they have the model's vectors", "load.vectors_s", "s", None),
    *((f"searches, {n} client{'s' * (n > 1)}{label}", f"load.search_{n}_{key}", unit, best) for n in CLIENTS
      for label, key, unit, best in (
          ("", "per_s", "/s", max), (", p50", "p50_ms", "ms", min), (", p99", "p99_ms", "ms", min),
      )),
    ("processor time of a write with its vector", "load.write_ms", "ms", min),
    ("processor time of a search", "load.search_ms", "ms", min),
    ("on disk, a note", "load.note_kb", "KB", min),
    ("memory of all processes (PSS)", "load.memory_mb", "MB", min),
    ("writes acknowledged before `kill -9`", "kill.acknowledged", "", None),
    ("of these missing after a restart", "kill.missing", "", min),
    ("the restart", "kill.restart_s", "s", min),
    ("files with words of a deleted note, before", "delete.files_before", "", None),
    ("the same after the deletion and a stop", "delete.files_left", "", min),
)  # fmt: skip
"""Rows: label, key of the figure, which begins with the question, unit, and which value is best."""


def comparison(figures: Figures) -> str:
    """The figures as Markdown: a column per system, a row per figure with its command, the best value in bold."""
    systems: dict[str, Figures] = figures["systems"]
    sets = dict.fromkeys(name for it in systems.values() for name in it.get("recall", ()))
    recalls = [(f"recall@{k}, {it}", f"recall.{it}.recall@{k}", "%", max) for it in sets for k in (5, 10)]
    rows = [["", *systems, "`--questions`"], ["---"] * (len(systems) + 2)]
    rows.append(["what it is", *(PEERS[name].kind for name in systems), ""])
    for label, key, unit, best_of in (*recalls, *LINES):
        values = [number(it, key) for it in systems.values()]
        measured = {value for value in values if value is not None}
        best = best_of(measured) if best_of and len(measured) > 1 else None
        bold = ["**" * (value is not None and value == best) for value in values]
        texts = ["" if value is None else written(value, unit) for value in values]
        cells = [f"{mark}{text}{mark}" for mark, text in zip(bold, texts, strict=True)]
        rows += [[label, *cells, f"`{key.partition('.')[0]}`"]] if measured else []
    on = figures["machine"]
    packages = dict.fromkeys(package for name in systems for package in PEERS[name].packages if "==" in package)
    head = (
        f"Measured {figures['taken']} on {on['cores']} x {on['processor']}, {on['memory_gib']} GiB, {on['system']}, "
        f"Python {on['python']}, load before the run {on['load']}: mnemolog {figures['commit']}, "
        f"{', '.join(packages).replace('==', ' ')}. Each row is measured by `python -m benchmarks peers --questions` "
        "with the word in its last column."
    )
    notes = [f"{name}: {PEERS[name].setup}." for name in systems]
    for name, it in systems.items():
        failed = [(key.split("_"), value) for key, value in it.get("load", {}).items() if key.endswith("_refused")]
        notes += [f"{name}: {value:,} calls of `{do}` failed, clients: {n}." for (do, n, _), value in failed if value]
        if "left_in" in it.get("delete", ()):
            notes.append(f"{name}: words of the deleted note are in {it['delete']['left_in']}.")
        notes += [f"{name}: {key} failed: {value['error']}." for key, value in it.items() if "error" in value]
    notes += [f"Not measured: {name}: {reason}." for name, reason in figures["not_measured"].items()]
    return "\n".join([head, "", *(f"| {' | '.join(cells)} |" for cells in rows), "", *(f"- {it}" for it in notes)])


@benchmark(
    Row("peers: acknowledged writes missing after kill -9", "systems.mnemolog.kill.missing", at_most=0),
    Row("peers: files with words of a deleted note", "systems.mnemolog.delete.files_left", at_most=0),
    quick={
        "systems": ("mnemolog", "rank-bm25"), "questions": ("load", "kill"), "here": True, "notes": 80,
        "searches": 20, "storm": 2_000, "storm_s": 1.0,
    },
    long=True,
)  # fmt: skip
def peers(
    data: Mapping[str, Path], systems: tuple[str, ...] = tuple(PEERS), questions: tuple[str, ...] = QUESTIONS,
    notes: int = 2_000, searches: int = 300, storm: int = 20_000, storm_s: float = 3.0, conversations: int = 0,
    wheels: str = "build/wheels", write: str = "", here: bool = False,
) -> Figures:  # fmt: skip
    """How does mnemolog compare with other memory systems, with the same texts on the same machine?

    Each system is installed with uv into an environment of its own, and runs alone, with an empty folder for each
    question. mnemolog is a server: its clients are HTTP connections. The others are libraries: their clients are
    threads of the process that they run in, which saves them the requests. All get the same texts, of the corpus or of
    `--data` (as for `relevance`, no hook events), each with its project, and search in one project. mnemolog also gets
    session, agent and time, which the others would not rank by. `--wheels` has the wheels that `make` builds. `--here`
    runs what this Python has, without an installation. `--write` puts the table into a page, between its markers.
    """
    ask: dict[str, Callable[[Installed], Figures]] = {
        "install": first_answer, "delete": delete, "load": partial(load, count=notes, searches=searches),
        "recall": partial(recall, data=data or {"chats": ROOT / "benchmarks/data/chats"}, conversations=conversations),
        "kill": partial(kill, storm=storm, storm_s=storm_s),
    }  # fmt: skip
    cache = from_environment({}).cache_dir / "peers"
    figures: Figures = {"taken": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "machine": machine()}
    measured: dict[str, Figures] = {name: {} for name in systems}
    figures |= {"systems": measured, "not_measured": NOT_MEASURED}
    installed = [Installed(it, Path(sys.executable)) if here else install(it, cache, ROOT / wheels) for it in systems]
    for key in questions:
        for it in installed:
            print(f"{it.name}: {key}", file=sys.stderr, flush=True)
            try:
                measured[it.name][key] = ask[key](it)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                measured[it.name][key] = {"error": f"{type(error).__name__}: {error}"}
    print(text := comparison(figures))
    if write:
        (ROOT / write).write_text(replaced((ROOT / write).read_text(), text))
    return figures
