"""The concepts of a text, and the facts that it states. Pure."""

import re
from collections.abc import Collection, Iterator
from itertools import islice

from projections.compression.payloads import is_base64
from projections.compression.words import TRIM, is_pattern, tokens, words

MAX_CONCEPTS = 12
MAX_FACTS = 5
FACT_CHARS = range(8, 201)
LONGEST_TERM = 201
_BACKTICKED = re.compile(r"`([^`\n]{2,60})`")
_NAME = re.compile(r"[A-Z](?<!\w[A-Z])\w++(?: [A-Z]\w++){1,3}")
_STOPWORDS = words(
    "the and for with from that this into e.g i.e file_path old_string new_string tool_name tool_input"
    " tool_output follow-up up-to-date so-called true false null none"
)
_STATES = words("is are was were uses use decided must prefers prefer should never always")
_NUMBER_OR_PAIR = re.compile(r"[0-9]|[:=](?<=\w.) ?\w")
_WORDS = re.compile(r"[^\W\d_]{2}")
_JSON_SYNTAX = re.compile(r"[{\[]\s*\\?\"|\\?\"\s*[:}\]]|\\\"")
_COMMAND = re.compile(r"(?:\A|\s)-{1,2}[a-zA-Z][\w-]*(?:[\s=]|\Z)|\A[-+]\S|\A[-+] {2,}")
"""A flag, or the sign of a patch's line; a list's has one space behind it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])")
_SENTENCE = re.compile(r"[^.!?\n]*+(?:[.!?](?!\s)[^.!?\n]*+)*+(?:[.!?\n]|\Z)")


def concepts_in(text: str, unsaid: Collection[str]) -> tuple[str, ...]:
    """Returns backticked words, then names, then identifiers, hyphenated words and hashtags, lower-cased."""
    codes: list[str] = _BACKTICKED.findall(text) if "`" in text else []
    found = [*(code for code in codes if not is_pattern(code)), *_names(text)]
    if _CAMEL_CASE.search(text):
        unusual = [token for token in tokens(text) if not (token.isalpha() and token.islower())]
    else:  # then no run of letters is a term
        unusual = [token for token in tokens(text) if not token.isalpha()]
    found += [word.removeprefix("#") for token in unusual if _is_term(word := token.strip(TRIM))]
    distinct = dict.fromkeys([word.strip().lower() for word in found])
    return tuple(islice((word for word in distinct if _is_concept(word) and word not in unsaid), MAX_CONCEPTS))


def _is_concept(word: str) -> bool:
    return len(word) > 2 and word not in _STOPWORDS and not word.startswith("mcp__")


def _is_term(word: str) -> bool:
    """snake_case, camelCase, hyphen-ated or a #hashtag; a term starts with a letter."""
    if word.isalpha():
        is_one = _CAMEL_CASE.search(word) is not None
    elif word.startswith("#"):
        return word[1:2].isalpha() and word[1:].replace("-", "_").isidentifier()
    elif not word[:1].isalpha():
        return False
    elif "_" in word:
        is_one = word.isidentifier()
    elif "-" in word:
        is_one = "--" not in word and word[-1] != "-" and word.replace("-", "").isalnum() and not _UUID.fullmatch(word)
    else:
        is_one = word.isalnum() and _CAMEL_CASE.search(word) is not None
    return is_one and len(word) <= LONGEST_TERM and not is_base64(word)


def _names(text: str) -> Iterator[str]:
    """Yields runs of two to four capitalised words; the word that opens a sentence does not count."""
    for found in _NAME.finditer(text):
        before = text[max(0, found.start() - 2) : found.start()].rstrip(" ")
        name = found[0]
        if not before or before[-1] in ".!?:\n":
            name = name.partition(" ")[2]
        if " " in name:
            yield name


def facts_in(text: str, unsaid: Collection[str]) -> tuple[str, ...]:
    """Returns the first short sentences that state something: a number, a `key: value` pair or a verb of `_STATES`.

    Each once; a command with its flags states nothing, nor does a line of a patch.
    """
    distinct: dict[str, None] = {}
    for fact in _facts(text, unsaid):
        distinct[fact] = None
        if len(distinct) == MAX_FACTS:
            break
    return tuple(distinct)


def _facts(text: str, unsaid: Collection[str]) -> Iterator[str]:
    """Yields the short sentences that state something: a number, a `key: value` pair or a verb of `_STATES`."""
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip()
        if len(sentence) not in FACT_CHARS or sentence.endswith("?"):
            continue
        if not _NUMBER_OR_PAIR.search(sentence) and _STATES.isdisjoint(sentence.lower().split()):
            continue
        is_json = '"' in sentence and _JSON_SYNTAX.search(sentence)
        if _COMMAND.search(sentence):
            continue
        if not is_json and _WORDS.search(sentence) and sentence.lower() not in unsaid:
            yield sentence
