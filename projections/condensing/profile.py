"""What a project is like, told from what was observed in it: concepts, files, conventions, errors, preferences. Pure.

Guarantee: a deterministic function of its arguments; the order in which documents are given does not matter.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from msgspec import Struct

from projections.compression.accounts import account, headline
from projections.compression.compression import told_by
from projections.compression.sentences import statements
from projections.condensing.topics import about
from projections.documents.memories import Memory
from projections.documents.observations import IMPORTANT, Observation

MOST_FREQUENT = 15
ENTRIES = 10
"""Of errors, of recent activity and of preferences."""
LINE_CHARS = 160
PREFERENCE_TAGS = frozenset({"preference", "preferences"})

_SUFFIXES = {
    "Python": "py pyi",
    "TypeScript": "ts tsx mts",
    "JavaScript": "js jsx mjs cjs",
    "Go": "go",
    "Rust": "rs",
    "Java": "java",
    "Kotlin": "kt",
    "C": "c h",
    "C++": "cc cpp hpp",
    "C#": "cs",
    "Ruby": "rb",
    "PHP": "php",
    "Swift": "swift",
    "Scala": "scala",
}
LANGUAGES = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
LANGUAGE_SHARE = 0.3
"""Of a project's source files, from which a language is one of the project's: at most three can be."""
LAYOUT_SHARE = 0.5
"""Of the source (or test) files that must lie in one kind of folder for it to be the layout."""
TEST_FOLDERS = ("tests", "test", "__tests__", "spec")
TEST_PREFIXES = ("test_",)
TEST_SUFFIXES = ("_test", ".test", ".spec", "_spec")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure)\b")
_OF_CODE = re.compile(r"[<>{}=;]")
_FAULT = re.compile(
    r"error|exception|failed|failure|fatal|panic|denied|refused|not found|no such|cannot|can't|unable|timed out"
    r"|invalid|violation|killed|abort",
    re.IGNORECASE,
)
"""How the line of an output begins that names an exception, and what the line of another fault says."""


class Profile(Struct, frozen=True, kw_only=True):
    """A project's profile as of `updated_at`. Pairs are a name and in how many observations it occurs, most first."""

    project: str
    user_id: str
    session_count: int
    total_observations: int
    concepts: list[tuple[str, int]]
    files: list[tuple[str, int]]
    conventions: list[str]
    errors: list[str]
    recent_activity: list[str]
    preferences: list[str]
    updated_at: datetime


def profile(
    project: str,
    user_id: str,
    session_count: int,
    observations: Sequence[Observation],
    memories: Sequence[Memory],
    now: datetime,
    titles: Mapping[str, str] = {},
) -> Profile | None:
    """The profile told by these documents, which the caller may read; None when there is nothing to tell from.

    `titles` say of a session, by its document's id, what it was about.
    """
    if not (session_count or observations or memories):
        return None
    newest = sorted(observations, key=lambda seen: seen.id)
    newest.sort(key=lambda seen: seen.occurred_at, reverse=True)
    return Profile(
        project=project,
        user_id=user_id,
        session_count=session_count,
        total_observations=len(observations),
        concepts=_most_frequent(
            topic for topic, places in about(newest, _said).items() if len(places) > 1 for _ in places
        ),
        files=_most_frequent(name for seen in newest if seen.kind != "search" for name in set(seen.files)),
        conventions=conventions(name for seen in newest for name in seen.files),
        errors=_first_distinct(_line(_error(seen)) for seen in newest if seen.kind == "error"),
        recent_activity=_recent_activity(newest, titles),
        preferences=_preferences(memories, user_id, now),
        updated_at=now,
    )


def conventions(files: Iterable[str]) -> list[str]:
    """What the paths give away, each counted once: the languages, biggest first, a `src/` folder, where tests are."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in sorted(set(files)) if "*" not in name]
    sources = [path for path in paths if _language(path)]
    tests = [path for path in sources if _is_test(path)]
    found = [f"{language} project" for language in _languages(sources)]
    if _share(sources, lambda path: "src" in path.parts[:-1]) > LAYOUT_SHARE:
        found.append("Standard src/ directory structure")
    if tests:
        found.append(_test_layout(tests))
    return found


def _languages(sources: Sequence[PurePosixPath]) -> list[str]:
    counts = Counter(_language(path) for path in sources)
    ranked = sorted(counts, key=lambda language: (-counts[language], language))
    return [language for language in ranked if counts[language] >= LANGUAGE_SHARE * len(sources)]


def _language(path: PurePosixPath) -> str:
    return LANGUAGES.get(path.suffix.removeprefix(".").lower(), "")


def _is_test(path: PurePosixPath) -> bool:
    """By its own name only: any project may lie in a folder called test."""
    return path.name.startswith(TEST_PREFIXES) or path.stem.endswith(TEST_SUFFIXES)


def _test_layout(tests: Sequence[PurePosixPath]) -> str:
    for folder in TEST_FOLDERS:
        if _share(tests, lambda path, folder=folder: folder in path.parts[:-1]) > LAYOUT_SHARE:
            return f"Tests in {folder}/"
    return "Tests beside the code"


def _share(paths: Sequence[PurePosixPath], belongs: Callable[[PurePosixPath], bool]) -> float:
    return sum(map(belongs, paths)) / len(paths) if paths else 0.0


def _most_frequent(names: Iterable[str]) -> list[tuple[str, int]]:
    counts = Counter(names)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_FREQUENT]


def _said(seen: Observation) -> list[str]:
    """What an observation states in words, code and markup left out."""
    return [said for said in statements(account(seen)) if not _OF_CODE.search(said)]


def _error(seen: Observation) -> str:
    """What went wrong: the line of the error's text that says it; empty where only the tool is known."""
    if not (seen.model and seen.title):
        if text := told_by(seen.data.get("error")) or told_by(seen.content):
            return _error_line(text)
        if text := told_by(seen.data.get("tool_output")):
            return _fault_line(text)
    return seen.title if seen.title != seen.data.get("tool_name") else ""


def _error_line(text: str) -> str:
    return _fault_line(text) or next((line for line in text.splitlines() if line.strip()), "")


def _fault_line(text: str) -> str:
    """The last line that names an exception, else the first that speaks of a fault; an output may have neither."""
    lines = text.splitlines()
    raised = (line for line in reversed(lines) if _EXCEPTION.match(line.strip()))
    faults = (line for line in lines if _FAULT.search(line))
    return next(raised, "") or next(faults, "")


def _recent_activity(newest: Sequence[Observation], titles: Mapping[str, str]) -> list[str]:
    """Of each session its title, else its most important observation, the newest of equals; newest first, dated."""
    best: dict[str, Observation] = {}
    for seen in newest:
        if seen.importance >= IMPORTANT and (
            seen.session not in best or seen.importance > best[seen.session].importance
        ):
            best[seen.session] = seen
    # Stable, so that what happened at the same moment stays in the order of `newest`.
    shown = sorted(best.values(), key=lambda seen: seen.occurred_at, reverse=True)
    told = (f"[{seen.occurred_at:%Y-%m-%d}] {_line(titles.get(seen.session) or headline(seen))}" for seen in shown)
    return _first_distinct(told)


def _preferences(memories: Sequence[Memory], user_id: str, now: datetime) -> list[str]:
    """What the user, or anybody under a preference tag, asked to remember and still holds; newest first."""
    held = [one for one in memories if one.is_latest and (one.forget_after is None or one.forget_after > now)]
    wanted = sorted((one for one in held if _is_preference(one, user_id)), key=lambda one: one.id)
    wanted.sort(key=lambda one: one.recorded_at, reverse=True)
    return _first_distinct(_line(one.content) for one in wanted)


def _is_preference(memory: Memory, user_id: str) -> bool:
    tagged = any(tag.lower() in PREFERENCE_TAGS for tag in memory.tags)
    return tagged or bool(user_id and memory.user_id == user_id)


def _first_distinct(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(line for line in lines if line))[:ENTRIES]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
