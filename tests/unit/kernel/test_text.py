"""What the compiled module reads out of texts, against the Python functions that specify it."""

import re
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from projections.kernel.module import native
from projections.nouns.index_entry import compiled_index, read_in_python
from projections.text import payloads, terms, words
from projections.text.payloads import Reading, compiled_payloads
from projections.text.terms import compiled_terms
from projections.text.words import compiled_names

WORDS = r"""
the The IT who WHO AND not can't CAN'T don't Ada's we've I'll n't 's ' '' _ __ : :: . .. - -- / // \\ @ # , ; ! ? ( ) [
] { } < > " ` = == ~ $ % ^ & * + | 2023-05-08 2023-13-40 2024-02-29 2023-02-29 0000-01-01 0001-02-03T10:00 1st 22nd 4TH
v1.2 V12.3.4 vv1.2 camelCase HTTPServer XMLHttp2 foo_bar src/a.py std::vector A a 0 9 running policy skies dying
generously WORLD ing `code` `a*b` **bold** Hello World #tag #a-b a--b http://x.y/z mailto:a@b //host.com/ </div> ./src/
~/a and/or main.py:12:3 .env key=a.py --flag -x +a {"a" \" (? .+ \d+ s/a/b/ is must never fixed root-cause bug. prefer?
a:b www.a a.com/ 1.2.3.4:5/x localhost:80/ iVBORw0KGgoAAAANSU bash/read mcp__x null I I'm my me are we may nine
yesterday tomorrow last next past in two three days week month ago monday weekend night
Will Do Us, (Who) ask 1.2.4 v1.2.3.4 python3.12.3-rc1 1.2.4x 1..2 10.0.0.1/24 std::unique_ptr a/b_c.d-e:12 m.find_by
#x/a-b prod-us iT a::b_c::d
"""
LONG = ["x" * 40, "q" * 128, "q" * 129, "aB" * 70, "1" * 129, "aB3/" * 12, "A1b" * 15]
SIGNS = [
    "\u2192",
    "\u2014",
    "\u2019",
    "\u2705\ufe0f",
    "\u2026",
    "\u2260",
    "\U0001f680",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb",
]
PIECES = [*WORDS.split(), *LONG, *SIGNS, " ", " ", " ", "\n", "\t", "\x1c", ". ", "? "]
TEXTS = st.one_of(
    st.text(st.characters(max_codepoint=127)),
    st.text(st.characters(exclude_categories=["L", "N", "M", "Z", "C"])),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=120).map(" ".join),
)
ALL = 100_000


@given(TEXTS)
def test_terms_are_those_of_the_reference(text: str):
    assert (found := compiled_terms.of(text)) is None or found == terms.terms_in_python(text)


@pytest.mark.parametrize("word", sorted(terms.STOP_WORDS))
def test_stop_words_are_those_of_the_reference(word: str):
    for text in (word, word.upper(), f"{word} {word.upper()} Xavier", f"{word}{word}"):
        assert compiled_terms.of(text) == terms.terms_in_python(text)


@given(TEXTS, st.booleans())
def test_what_an_index_knows_is_that_of_the_reference(text: str, with_stop_words: bool):
    found = compiled_index.read(text, with_stop_words)
    assume(found)
    said, traits, times = read_in_python(text, with_stop_words)
    assert found
    assert found[:2] == (said, traits)
    assert set(found[2]) <= set(times)


REFERENCES = (words.paths_in_python, words.concepts_in_python, words.facts_in_python)
UNSAID = st.sets(st.sampled_from([word.lower() for word in WORDS.split()]), max_size=8)


def _first(text: str, unsaid: set[str], limit: int) -> list[tuple[str, ...]]:
    """Return the first paths, concepts and facts by the references."""
    unsaid = unsaid | words.TOOLS
    allowed = (dict.fromkeys(word for word in find(text) if word.lower() not in unsaid) for find in REFERENCES)
    return [tuple(words)[:limit] for words in allowed]


@given(TEXTS, UNSAID, st.sampled_from([0, 1, 2, 5, ALL]))
def test_what_a_text_names_is_that_of_the_reference(text: str, unsaid: set[str], limit: int):
    read = compiled_names.read(text, unsaid, limit, limit, limit)
    assume(read)
    assert read
    for compiled, expected in zip(read[:3], _first(text, unsaid, limit), strict=True):
        assert compiled in (None, expected)
    assert read[3] == words.is_weighty_in_python(text)


EMBEDDED = [
    "data:", "DATA:", "data:image/png;base64,iVBORw0KGgoAAAANSU", "/9j/4AAQSkZJRg", "*** End Patch", "Wall time: 1",
    "Exit Code: 0", "(End of file)", "[cut]", "[image/png, 3 bytes]", "'a' :", "'a':", "it's:", '"a": "b"',
    '{"a": "b c"}', "aB3/" * 12, "q" * 16, "\u00e9",
]  # fmt: skip
WRAPPED = st.lists(st.sampled_from([*EMBEDDED, *PIECES]), max_size=12).map(" ".join) | st.sampled_from(EMBEDDED) | TEXTS


@given(WRAPPED)
def test_plain_texts_are_those_that_the_reference_leaves_as_they_are(text: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payloads, "compiled_payloads", _Never())
        named, said = payloads.named(text), Reading().text(text)
    assert compiled_payloads.may_embed(text) or named == text
    assert not compiled_payloads.is_plain(text) or named == said == text


def test_most_texts_are_plain():
    for text in ("", "Ada moved it to eu-3 \u2192 it's quiet; see src/a.py:3 (pytest) **now**"):
        assert compiled_payloads.is_plain(text)
        assert not compiled_payloads.may_embed(text)


class _Never:
    """Rules nothing out, so that the reference reads every text."""

    def may_embed(self, text: str) -> bool:
        return True

    def is_plain(self, text: str) -> bool:
        return False


JSON_PIECES = [
    *'"{}[]:,\\ \n', *'"a":', *"{{[[", '"a": "b c"', '"x\\"y"', "\\u00e9", "true", "1e5", "caf\u00e9_1", "\u0661a",
    "\u2192", "\U0001f680", "\x1c", "\u00a0", "don't",
]  # fmt: skip
JSON = st.lists(st.sampled_from(JSON_PIECES), max_size=30).map("".join)


@given(JSON | JSON.map('{"a": '.__add__), st.sampled_from("{["))
def test_json_is_read_as_by_the_reference(text: str, opening: str):
    assert native.json_container(opening + text, 0) == json_container_in_python(opening + text, 0)
    assert native.json_container("x" + opening + text, 1) == json_container_in_python("x" + opening + text, 1)


def json_container_in_python(text: str, start: int) -> tuple[int, list[str], list[tuple[str | None, str]]]:
    """Read an object or a list as the compiled function does."""
    names: list[str] = []
    values: list[tuple[str | None, str]] = []
    opened: list[str] = []
    field = last = ""
    at = start
    while at < len(text):
        sign = text[at]
        if sign == '"':
            string = re.compile(r"\"((?:[^\"\\]++|\\.)*+)(\"|\\?\Z)", re.DOTALL).match(text, at)
            assert string
            at = string.end()
            colon = re.compile(r"\s*:").match(text, at)
            if colon or (opened[-1] == "{" and last in "{,"):
                field, last = string[1], ":"
                names.append(field)
                at = colon.end() if colon else at
            else:
                values.append((field, string[1]))
                last = sign
        elif sign in "{[":
            opened.append(sign)
            last = sign
            at += 1
        elif sign in "}]":
            opened.pop()
            last = sign
            at += 1
            if not opened:
                break
        else:
            match = re.compile(r"[^\"{}\[\]]+").match(text, at)
            assert match
            beside = match[0].rstrip()
            last = beside[-1] if beside else last
            values += [(None, word) for word in re.findall(r"[^\W\d]\w+", beside)]
            at = match.end()
    return at, names, values


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=2), VALUES, max_size=4), st.integers(0, 12))
def test_texts_in_an_object_are_those_of_the_reference(value: dict[str, Any], at_most: int):
    expected: list[str] = []
    left, pending = at_most, list[Any]([value])
    while pending and left > 0:
        node = pending.pop()
        if isinstance(node, str):
            expected.append(node[:left])
            left -= len(node)
        elif isinstance(node, dict):
            pending.extend(reversed(list(cast(dict[str, Any], node).values())))
        elif isinstance(node, list | tuple):
            pending.extend(reversed(cast(list[Any], node)))
    assert native.texts_in(value, at_most) == expected


QUERY_TERMS = st.lists(st.sampled_from(["the", "polici", "run", "x", "a", "2023", "\u5b57", ""]), max_size=6)


@given(TEXTS, QUERY_TERMS, st.integers(2, 300))
def test_a_snippet_is_that_of_the_reference(text: str, query_terms: list[str], limit: int):
    text += " the end" * (limit // 8 + 1)  # longer than the limit
    assert native.stretch(text, query_terms, limit) in (None, terms.stretch_in_python(text, query_terms, limit))


def test_every_sign_is_read_as_the_reference_reads_it():
    signs = [chr(code) for code in range(128, 0x20000) if compiled_terms.of(chr(code)) is not None]
    assert len(signs) > 2_000
    for sign in signs:
        text = f"a_{sign}b x.{sign}y `a{sign}` Ab{sign} Cd is {sign} 1.{sign} the/{sign}/a.py {sign}I{sign}m it{sign}s?"
        assert compiled_terms.of(text) == terms.terms_in_python(text)
        paths, concepts, facts, _ = compiled_names.read(text, set(), ALL, ALL, ALL) or ((),) * 4
        expected = _first(text, set(), ALL)
        assert facts == expected[2]
        assert concepts in (None, expected[1])
        assert paths in (None, expected[0])
        assert (compiled_index.read(text, True) or ())[:2] == read_in_python(text, True)[:2]
        longer = text + " the end" * 30
        assert native.stretch(longer, ["a", "x.y"], 80) == terms.stretch_in_python(longer, ["a", "x.y"], 80)


@pytest.mark.parametrize("text", ["\u00e9", "\ud800", "\u5b57", "a\u00a0b"])
def test_other_texts_are_left_to_the_reference(text: str):
    assert compiled_terms.of(text) is None
    assert native.stretch(text, [], 240) is None
    assert compiled_index.read(text, True) is None
    assert compiled_names.read(text, set(), 5, 5, 5) is None
