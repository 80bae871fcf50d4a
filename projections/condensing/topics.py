"""What texts are about, by names that a person would use.

Guarantee: pure. A topic is words: no tag that the server sets, no name of a tool, key, column, file or flag, no
identifier of code, no id. Where that cannot be told, the answer is no.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain, islice
from typing import Any, cast

from projections.compression.payloads import MAX_NODES
from projections.compression.words import TOOLS, words
from projections.condensing.claims import CODE_SPAN, SERVER_TAGS
from projections.documents.observations import Observation
from projections.search.terms import STOP_WORDS, UNSPACED

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
    """Returns whether a lower-cased concept may stand for what texts have in common; `names` are `names_of` them."""
    return _is_named(concept) and concept not in names and not _ID.search(concept)


def topics_of(concepts: Iterable[str]) -> set[str]:
    """Returns those of the concepts that somebody gave to a document that are topics, lower-cased; ids may be some."""
    stripped = (concept.strip() for concept in concepts)
    return {concept.lower() for concept in stripped if not _is_code(concept) and _is_named(concept.lower())}


def _is_named(concept: str) -> bool:
    """Whether it may name something outside of code, of the server and of tools."""
    said = concept.split()
    return (
        1 < len(concept) <= MAX_CHARS
        and len(said) <= MAX_WORDS
        and concept not in SERVER_TAGS
        and concept not in TOOLS
        and not _CODE.search(concept)
        and any(character.isalpha() for character in concept)
        and STOP_WORDS.isdisjoint((said[0], said[-1]))
    )


def about(
    observations: Sequence[Observation], said: Callable[[Observation], Sequence[str]]
) -> dict[str, dict[int, list[str]]]:
    """Returns the topics of observations: of each the places of those that say it, and the sentences with it.

    `said` are the sentences of an observation. What most of them write in camel case, or shout, is of code.
    """
    names = names_of(observations)
    found: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
    for place, observation in enumerate(observations):
        topics = [one for one in {one.strip().lower() for one in observation.concepts} if is_topic(one, names)]
        sentences = said(observation) if topics else ()
        for topic in topics:
            if mentioning := [one for one in sentences if mentions(one, topic)]:
                found[topic][place] = mentioning
    return {topic: places for topic, places in found.items() if not _is_code(written(topic, chain(*places.values())))}


def names_of(observations: Iterable[Observation]) -> frozenset[str]:
    """Returns the lower-cased names of tools and keys in these observations: they say how something was recorded."""
    found: set[str] = set()
    for seen in observations:
        tool = seen.data.get("tool_name")
        if isinstance(tool, str):
            found.add(tool.strip().lower())
        found.update(key.lower() for key in islice(_keys(seen.data), MAX_NODES))
        found.update(key.lower() for key in _KEY.findall(seen.content[:_SCANNED]))
    return frozenset(found)


def mentions(text: str, concept: str) -> bool:
    """Returns whether a text says the concept, as words of their own, in any case; several words not as code."""
    return re.search(_as_words(concept), _outside_code(text, concept), re.IGNORECASE) is not None


def written(topic: str, sentences: Iterable[str]) -> str:
    """Returns a topic as most of the sentences write it, each of which says it."""
    wanted = re.compile(_as_words(topic), re.IGNORECASE)
    return Counter(found for one in sentences for found in wanted.findall(one)).most_common(1)[0][0]


def _is_code(name: str) -> bool:
    in_camel_case = [word for word in name.split() if _CAMEL_CASE.search(word)]
    return _UPPER_CASE.fullmatch(name) is not None or any(
        word.lower() not in NAMES_IN_CAMEL_CASE for word in in_camel_case
    )


def _as_words(concept: str) -> str:
    return re.escape(concept) if UNSPACED.search(concept) else rf"(?<!\w){re.escape(concept)}(?!\w)"


def _outside_code(text: str, concept: str) -> str:
    """A command or a piece of code is no topic, while people put the name of a thing into backticks: a word, or several
    with capitals."""
    return CODE_SPAN.sub(lambda span: span[0] if _TITLED.fullmatch(span[0]) else " ", text) if " " in concept else text


def _keys(value: Any) -> Iterator[str]:
    """The names of a JSON value's fields, and of those in texts that look like JSON; not of the outermost object."""
    pending: list[Any] = list(cast(dict[str, Any], value).values())
    while pending:
        value = pending.pop()
        match value:
            case dict():
                known = cast(dict[Any, Any], value)
                yield from (key for key in known if isinstance(key, str))
                pending += known.values()
            case list():
                pending += cast(list[Any], value)
            case str() as text:
                yield from _KEY.findall(text[:_SCANNED])
            case _:
                pass
