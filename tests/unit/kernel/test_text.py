"""What the compiled module reads out of texts, against the Python functions that specify it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from projections.kernel.module import native
from projections.nouns.index_entry import compiled_index, read_in_python
from projections.text import terms, words
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


@given(TEXTS)
def test_what_a_text_names_is_that_of_the_reference(text: str):
    for found, expected in (
        (compiled_names.paths(text, ALL), words.paths_in_python(text)),
        (compiled_names.concepts(text, ALL), words.concepts_in_python(text)),
        (compiled_names.facts(text, ALL), words.facts_in_python(text)),
    ):
        assert found is None or list(dict.fromkeys(found)) == list(dict.fromkeys(expected))
    assert compiled_names.is_weighty(text) in (None, words.is_weighty_in_python(text))


QUERY_TERMS = st.lists(st.sampled_from(["the", "polici", "run", "x", "a", "2023", "\u00e9", ""]), max_size=6)


@given(TEXTS, QUERY_TERMS, st.integers(2, 300))
def test_a_snippet_is_that_of_the_reference(text: str, query_terms: list[str], limit: int):
    assume(len(text) > limit)
    assert native.stretch(text, query_terms, limit) in (None, terms.stretch_in_python(text, query_terms, limit))


def test_every_sign_is_read_as_the_reference_reads_it():
    signs = [chr(code) for code in range(128, 0x20000) if compiled_terms.of(chr(code)) is not None]
    assert len(signs) > 2_000
    for sign in signs:
        text = f"a_{sign}b x.{sign}y `a{sign}` Ab{sign} Cd is {sign} 1.{sign} the/{sign}/a.py {sign}I{sign}m it{sign}s?"
        assert compiled_terms.of(text) == terms.terms_in_python(text)
        assert compiled_names.facts(text, ALL) == list(words.facts_in_python(text))
        assert compiled_names.concepts(text, ALL) in (None, list(words.concepts_in_python(text)))
        assert compiled_names.paths(text, ALL) in (None, list(words.paths_in_python(text)))
        assert (compiled_index.read(text, True) or ())[:2] == read_in_python(text, True)[:2]
        longer = text + " the end" * 30
        assert native.stretch(longer, ["a", "x.y"], 80) == terms.stretch_in_python(longer, ["a", "x.y"], 80)


@pytest.mark.parametrize("text", ["\u00e9", "\ud800", "\u5b57", "a\u00a0b"])
def test_other_texts_are_left_to_the_reference(text: str):
    assert compiled_terms.of(text) is None
    assert native.stretch(text, [], 240) is None
    assert compiled_index.read(text, True) is None
    assert compiled_names.facts(text, 5) is None
