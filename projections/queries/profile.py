"""A project's profile, from its observations: concepts, files, conventions, errors, preferences. Pure.

Guarantee: a deterministic function of its arguments; the order in which documents are given does not matter.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct

from ingest.platform.files import toml_beside
from projections.nouns.memory import SERVER_TAGS, Memory
from projections.nouns.observation import IMPORTANT, Observation
from projections.text.accounts import MODIFYING, account, headline
from projections.text.compression import told_by
from projections.text.payloads import MAX_NODES
from projections.text.sentences import statements
from projections.text.terms import STOP_WORDS, UNSPACED
from projections.text.words import CODE_SPAN, TOOLS, words

MOST_FREQUENT = 15
ENTRIES = 10
"""Of errors, of recent activity and of preferences."""
LINE_CHARS = 160
PREFERENCE_TAGS = frozenset({"preference", "preferences"})

LANGUAGES = {
    suffix: language for language, suffixes in toml_beside(__file__, "languages.toml").items() for suffix in suffixes
}
LANGUAGE_SHARE = 0.3
"""Of a project's source files, from which a language is one of the project's: at most three can be."""
LAYOUT_SHARE = 0.5
"""Of the source (or test) files that must lie in one kind of folder for it to be the layout."""
TEST_FOLDERS = ("tests", "test", "__tests__", "spec")
TEST_PREFIXES = ("test_",)
TEST_SUFFIXES = ("_test", ".test", ".spec", "_spec")
_OF_CODE = re.compile(r"[<>{}=;]")


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
    *,
    total_observations: int = 0,
) -> Profile | None:
    """The profile of these documents, which the caller may read; None without documents.

    `titles` has titles of sessions by the id of the session's document. `total_observations` says how many there are,
    if those given are the newest.
    """
    if not (session_count or observations or memories):
        return None
    newest = sorted(observations, key=lambda observation: observation.id)
    newest.sort(key=lambda observation: observation.occurred_at, reverse=True)
    talked = talks(newest)

    def is_common(indexes: Iterable[int]) -> bool:
        """Whether more than one observation says it, and not only the talk with one person."""
        sessions = [newest[index].session for index in indexes]
        return len(sessions) > 1 and (len(set(sessions)) > 1 or sessions[0] not in talked)

    return Profile(
        project=project,
        user_id=user_id,
        session_count=session_count,
        total_observations=total_observations or len(observations),
        concepts=_most_frequent(
            topic for topic, indexes in about(newest, _statements).items() if is_common(indexes) for _ in indexes
        ),
        files=_changed_often(newest),
        conventions=conventions(name for observation in newest for name in observation.files),
        errors=_first_distinct(
            _line(failure.reason) for failure, passed in reversed(failures(newest[::-1])) if passed is None
        ),
        recent_activity=_recent_activity(newest, titles),
        preferences=_preferences(memories, user_id, now),
        updated_at=now,
    )


def talks(observations: Iterable[Observation]) -> set[str]:
    """The sessions in which a user and an agent only talked: none of these observations is about a file or a command,
    so what is said there may be about one person's case instead of the project."""
    observations = list(observations)
    talked: set[str] = {item.session for item in observations if item.turn == "user"}
    return talked - {item.session for item in observations if item.files or item.kind == "command_run"}


def conventions(files: Iterable[str]) -> list[str]:
    """What the paths give away, each counted once: the languages, biggest first, a `src/` folder, where tests are."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in sorted(set(files)) if "*" not in name]
    sources = [path for path in paths if _language(path)]
    # by its own name only: any project may be in a folder called test
    tests = [path for path in sources if path.name.startswith(TEST_PREFIXES) or path.stem.endswith(TEST_SUFFIXES)]
    counts = Counter(_language(path) for path in sources)
    ranked = sorted(counts, key=lambda language: (-counts[language], language))
    lines = [f"{language} project" for language in ranked if counts[language] >= LANGUAGE_SHARE * len(sources)]
    if _share(sources, "src") > LAYOUT_SHARE:
        lines.append("Standard src/ directory structure")
    if tests:
        folder = next((folder for folder in TEST_FOLDERS if _share(tests, folder) > LAYOUT_SHARE), "")
        lines.append(f"Tests in {folder}/" if folder else "Tests beside the code")
    return lines


def _language(path: PurePosixPath) -> str:
    return LANGUAGES.get(path.suffix.removeprefix(".").lower(), "")


def _share(paths: Sequence[PurePosixPath], folder: str) -> float:
    """The share of the paths that are in a folder of this name, at any depth."""
    return sum(folder in path.parts[:-1] for path in paths) / len(paths) if paths else 0.0


def _most_frequent(names: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_FREQUENT]


def _statements(observation: Observation) -> list[str]:
    """The statements of an observation, without code and markup."""
    return [sentence for sentence in statements(account(observation)) if not _OF_CODE.search(sentence)]


def _changed_often(observations: Iterable[Observation]) -> list[tuple[str, int]]:
    """The files that were changed more than once, and how often; while there are none, those that were changed."""
    changed = _most_frequent(chain(*(set(item.files) for item in observations if item.kind in MODIFYING)))
    return [(name, count) for name, count in changed if count > 1] or changed


def _recent_activity(newest: Sequence[Observation], titles: Mapping[str, str]) -> list[str]:
    """Of each session its title, else its most important observation, the newest of equals; newest first, dated."""
    best: dict[str, Observation] = {}
    for observation in newest:
        if observation.importance >= IMPORTANT and (
            observation.session not in best or observation.importance > best[observation.session].importance
        ):
            best[observation.session] = observation
    # Stable, so that what happened at the same moment stays in the order of `newest`.
    ordered = sorted(best.values(), key=lambda observation: observation.occurred_at, reverse=True)
    return _first_distinct(
        f"[{observation.occurred_at:%Y-%m-%d}] {_line(titles.get(observation.session) or headline(observation))}"
        for observation in ordered
    )


def _preferences(memories: Sequence[Memory], user_id: str, now: datetime) -> list[str]:
    """Rules in force, and current memories about the user or with a preference tag; newest first."""
    preferences = [
        memory
        for memory in memories
        if memory.is_latest
        and not memory.has_ended(now)
        and not memory.is_suggested
        and (
            memory.memory_type == "rule"
            or any(tag.lower() in PREFERENCE_TAGS for tag in memory.tags)
            or bool(user_id and memory.user_id == user_id)
        )
    ]
    preferences.sort(key=lambda memory: memory.id)
    preferences.sort(key=lambda memory: memory.recorded_at, reverse=True)
    return _first_distinct(_line(memory.content) for memory in preferences)


def _first_distinct(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(line for line in lines if line))[:ENTRIES]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


MAX_WORDS = 4
MAX_CHARS = 60
_CODE = re.compile(
    r"[_\\/=:;,$@<>{}\[\]()\"`*#%&|~^+?!]"
    r"|(?<!\d)\.|\.(?!\d)"  # a file, a module, an abbreviation; "3.12" is a version
    r"|(?:\A|[\s-])-|-\Z|\w-\w+-\w"  # a flag, a key as "rerun-if-changed"
    r"|\b(?:one|two|three|multi|non|max|min)-"  # of what kind something is, not what
)
_ID = re.compile(r"\d[^\W\d_]|[^\W\d_]-?\d{3}")
"""As "m20izo" and "hat130"."""
_CAMEL_CASE = re.compile(r"[a-z0-9][A-Z]")
_UPPER_CASE = re.compile(r"[A-Z]+(?: [A-Z]+)+|(?:\w+ )*(?=\w*\d)[A-Z0-9]{5,}")
"""A clause of SQL, an id."""
_TITLED = re.compile(r"`[A-Z]\w*(?: [A-Z]\w*)+`")
NAMES_IN_CAMEL_CASE = words(
    "bigquery bitbucket circleci clickhouse devops dynamodb fastapi github gitlab graphql javascript jetbrains linkedin"
    " macos mariadb mastercard mongodb mysql nodejs oauth openai openapi openssl opensearch opentelemetry paypal"
    " postgis postgresql powershell pytorch rabbitmq sqlite tensorflow timescaledb typescript webassembly websocket"
    " websockets youtube"
)
"""Names of products and standards that people write like identifiers of code."""
_KEY = re.compile(r"[\"']([\w.-]{1,60})[\"']\s*:")
_SCANNED = 8_000
"""Characters of an observation in which key names are looked for."""


def is_topic(concept: str, names: Set[str] = frozenset()) -> bool:
    """Returns whether a lower-cased concept may be what texts have in common; `names` are `names_of` them."""
    return _is_named(concept) and concept not in names and not _ID.search(concept)


def topics_of(concepts: Iterable[str]) -> set[str]:
    """Returns those of the concepts that somebody gave to a document that are topics, lower-cased; ids may be some."""
    stripped = (concept.strip() for concept in concepts)
    return {concept.lower() for concept in stripped if not _is_code(concept) and _is_named(concept.lower())}


def _is_named(concept: str) -> bool:
    """Whether it may name something outside of code, of the server and of tools."""
    terms = concept.split()
    return (
        1 < len(concept) <= MAX_CHARS
        and len(terms) <= MAX_WORDS
        and concept not in SERVER_TAGS
        and concept not in TOOLS
        and not _CODE.search(concept)
        and any(character.isalpha() for character in concept)
        and STOP_WORDS.isdisjoint((terms[0], terms[-1]))
    )


def about(
    observations: Sequence[Observation], sentences_in: Callable[[Observation], Sequence[str]]
) -> dict[str, dict[int, list[str]]]:
    """Returns the topics of observations: of each the places of those that say it, and the sentences with it.

    `sentences_in` returns the sentences of an observation. A topic in camel case or capitals in most of them is code.
    """
    names = names_of(observations)
    by_topic: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
    for index, observation in enumerate(observations):
        concepts = {concept.strip().lower() for concept in observation.concepts}
        topics = [concept for concept in concepts if is_topic(concept, names)]
        sentences = sentences_in(observation) if topics else ()
        for topic in topics:
            if mentioning := [sentence for sentence in sentences if mentions(sentence, topic)]:
                by_topic[topic][index] = mentioning
    return {topic: texts for topic, texts in by_topic.items() if not _is_code(written(topic, chain(*texts.values())))}


def names_of(observations: Iterable[Observation]) -> frozenset[str]:
    """Returns the lower-cased names of tools and keys in these observations: they say how something was recorded."""
    names: set[str] = set()
    for observation in observations:
        tool = observation.data.get("tool_name")
        if isinstance(tool, str):
            names.add(tool.strip().lower())
        names.update(key.lower() for key in islice(_keys(observation.data), MAX_NODES))
        names.update(key.lower() for key in _KEY.findall(observation.content[:_SCANNED]))
    return frozenset(names)


def mentions(text: str, concept: str) -> bool:
    """Returns whether a text says the concept, as words of their own, in any case; several words not as code.

    A command or a piece of code is no topic, but people put the name of a thing into backticks: a word, or several
    with capitals.
    """
    if " " in concept:
        text = CODE_SPAN.sub(lambda span: span[0] if _TITLED.fullmatch(span[0]) else " ", text)
    return re.search(_as_words(concept), text, re.IGNORECASE) is not None


def written(topic: str, sentences: Iterable[str]) -> str:
    """Returns a topic as most of the sentences that say it write it; as given if none says it in one."""
    pattern = re.compile(_as_words(topic), re.IGNORECASE)
    spellings = Counter(spelling for text in sentences for spelling in pattern.findall(text))
    return next((spelling for spelling, _ in spellings.most_common(1)), topic)


def _is_code(name: str) -> bool:
    if _UPPER_CASE.fullmatch(name):
        return True
    return any(word.lower() not in NAMES_IN_CAMEL_CASE for word in name.split() if _CAMEL_CASE.search(word))


def _as_words(concept: str) -> str:
    return re.escape(concept) if UNSPACED.search(concept) else rf"(?<!\w){re.escape(concept)}(?!\w)"


def _keys(value: Any) -> Iterator[str]:
    """The names of a JSON value's fields, and of those in texts that look like JSON; not of the outermost object."""
    pending: list[Any] = list(cast(dict[str, Any], value).values())
    while pending:
        value = pending.pop()
        match value:
            case dict():
                fields = cast(dict[Any, Any], value)
                yield from (key for key in fields if isinstance(key, str))
                pending += fields.values()
            case list():
                pending += cast(list[Any], value)
            case str() as text:
                yield from _KEY.findall(text[:_SCANNED])
            case _:
                pass


_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure)\b")
_ERROR_WORDS = re.compile(
    r"error|exception|failed|failure|fatal|panic|denied|refused|not found|no such|cannot|can't|unable|timed out"
    r"|invalid|violation|killed|abort",
    re.IGNORECASE,
)
"""How the line of an output begins that names an exception, and what the line of another error says."""
_NAMED_ERROR = re.compile(r"\b(?:error|fatal|panic|exception)\b[^.]*: ", re.IGNORECASE)
_FAILED_TEST = re.compile(r"(?:FAILED|--- FAIL:|FAIL|✗|✕|not ok \d+ -?)\s+(\S.*?)(?: - (.*)| \([\d.]+ ?m?s\))?\Z")
_ASSERTED = re.compile(r"E\s+(assert\b.*|\S*(?:Error|Exception)\b.*)")
_FAILURE = re.compile(
    r"^[ \t]*(?:FAIL(?:ED)?\b|--- FAIL|npm ERR!|make(?:\[\d+\])?: \*\*\*|Traceback \(most recent call last\)|ERROR: )"
    r"|\b[1-9]\d* (?:failed|failing|failures?|errors?)\b(?!=)|\berror(?:\[E\d+\]| TS\d+)|\bexit code:? [1-9]",
    re.MULTILINE | re.IGNORECASE,
)
"""What the output of a failed command says, whose tool did not say that it failed."""
_FAILURE_SIGNS = ("fail", "error", "traceback", "npm err!", "***", "exit code")
"""One of which is in each of those: looked for first, at a fraction of the price."""
_TEST = re.compile(
    r"\b(?:pytest|unittest|tox|nox|vitest|jest|mocha|rspec|phpunit|ctest|playwright|cypress|(?:cargo|go|mix|dotnet|gradlew?"
    r"|mvn) (?:nex)?test|(?:npm|pnpm|yarn|bun|make|just|task|rake)\b[^|;&]*\b(?:\w+[-:])?(?:tests?|check|e2e))\b"
)
_CHANGING = re.compile(
    r"\bsed -i|\bgit (?:apply|revert|restore|cherry-pick|stash pop)\b|\b(?:npm|pnpm|yarn|pip|uv|cargo|go|poetry)"
    r" (?:\w+ )?(?:i|install|add|rm|remove|update|upgrade|sync|lock|get)\b"
)
_SEPARATOR = re.compile(r"&&|\|\||[;\n]| & ")
_OPTION = re.compile(r"-|\w+=|\d?[<>]")
_ASIDE = re.compile(
    r"(?:sudo )?(?:cd|echo|sleep|done|do|for|export|cat|head|tail|less|grep|rg|find|ls|awk|sed|jq|ps|ss|curl|ssh|dig"
    r"|pwd|which|wc|journalctl|git"
    r"|(?:gh|kubectl|docker|aws|systemctl)\b.*\b(?:logs?|view|show|describe|list|get|status|events))\b"
)
"""A command that is there for another one, or shows how something else went."""
_OUTPUT_CHARS = 4_000


class Run(Struct, frozen=True):
    """A tool call: its index among observations, its commands without options, what tested, why it failed if it did."""

    index: int
    commands: list[str]
    test: str = ""
    reason: str = ""


def failures(observations: Sequence[Observation]) -> list[tuple[Run, Run | None]]:
    """The failures of observations in time order, each with the run that ended it; those without one stand, last.

    The same command that passes ends a failure, and so does a test that includes it; after an edit any test of its
    session does, and in another session the same kind of test.
    """
    standing: dict[str, Run] = {}
    ended: list[tuple[Run, Run | None]] = []
    edited = -1
    for index, observation in enumerate(observations):
        edited = index if changes_files(observation) else edited
        if (run := run_of(index, observation)) is None:
            continue
        if run.reason:
            standing.pop(run.commands[-1], None)
            standing[run.commands[-1]] = run
        for failed, failure in list(standing.items()) if not run.reason else ():
            is_here = observations[failure.index].session == observation.session
            is_fixed = edited > failure.index and (is_here or failure.test in ("", run.test))
            is_part = failure.test and any(failed.startswith(f"{command} ") for command in run.commands)
            if not {*run.commands}.isdisjoint(failure.commands) or (run.test and (is_fixed or is_part)):
                ended.append((standing.pop(failed), run))
    return ended + [(failure, None) for failure in standing.values()]


def changes_files(observation: Observation) -> bool:
    """Whether a tool edited or wrote a file, or a command did."""
    return observation.kind in MODIFYING or _CHANGING.search(shell_line(observation)) is not None


def run_of(index: int, observation: Observation) -> Run | None:
    """What a tool ran and why it failed; None for what is no tool call, or only looks at what ran elsewhere."""
    line, tool = shell_line(observation), str(observation.data.get("tool_name") or "")
    called = " ".join([tool, *observation.files[:1]]).strip()
    commands, test = commands_in(line), match[0] if (match := _TEST.search(line)) else ""
    if observation.kind == "error":
        reason = _error(observation)
        return Run(index, commands or [called or reason], test, reason) if reason else None
    if not commands:
        return Run(index, [called]) if tool and not line else None
    output = told_by(observation.data.get("tool_output") or observation.content)[-_OUTPUT_CHARS:]
    may_fail = any(map(output.lower().__contains__, _FAILURE_SIGNS))
    return Run(index, commands, test, error_line(output) if may_fail and _FAILURE.search(output) else "")


def shell_line(observation: Observation) -> str:
    """What a shell was called with, or what was written down of that; "" for another tool."""
    value = observation.data.get("tool_input") if observation.kind in ("command_run", "error") else ""
    value = value or observation.content * (observation.kind == "command_run")
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        value = fields.get("command") or fields.get("cmd")
    return " ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value or "")


def commands_in(line: str) -> list[str]:
    """The commands of a shell line that do something, without options, variables, and what they are piped to."""
    parts = (part.partition(" | ")[0].split() for part in _SEPARATOR.split(line))
    commands = (" ".join(word for word in words if not _OPTION.match(word)) for words in parts)
    return [command for command in commands if command and not _ASIDE.match(command)]


def _error(observation: Observation) -> str:
    """The line that names the error; empty where only the tool is known."""
    if not (observation.model and observation.title):
        if text := told_by(observation.data.get("error")) or told_by(observation.content):
            return error_line(text) or next((line for line in text.splitlines() if line.strip()), "")
        if text := told_by(observation.data.get("tool_output")):
            return error_line(text)
    return observation.title if observation.title != observation.data.get("tool_name") else ""


def error_line(text: str) -> str:
    """What failed according to an output: a test with its reason, else the last line that names an exception, else the
    first that mentions an error; an output may have none. A heading between rules ("=== FAILURES ===") is no error."""
    lines = [bare for line in text.splitlines() if (bare := line.strip())]
    lines = [line for line in lines if (line[:3] + line[-3:]).strip("=-_*# ") or any(map(str.isdigit, line))]
    asserted = [match[1] for line in lines if (match := _ASSERTED.match(line))]
    for number, line in enumerate(lines):
        if test := _FAILED_TEST.match(line):
            reason = test[2] or ""
            if not reason or reason.endswith("..."):  # pytest cuts it to the width of a terminal
                reason = "".join(asserted[:1]) or reason or "".join(lines[number + 1 : number + 2])
            return f"{test[1]}: {reason}" if reason else test[1]
    raised = asserted[-1:] or [line for line in reversed(lines) if _EXCEPTION.match(line)]
    if raised:
        return raised[0]
    errors = [line for line in lines if _ERROR_WORDS.search(line)]
    return next(chain(filter(_NAMED_ERROR.search, errors), errors), "")
