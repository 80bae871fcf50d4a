"""What the compiled module reads out of ASCII texts, against the Python functions that specify it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.kernel.module import NATIVE, native
from projections.search import terms

pytestmark = pytest.mark.skipif(not NATIVE, reason="mnemolog-kernel is not installed")

WORDS = r"""
the The IT who WHO AND not can't CAN'T don't Ada's we've I'll n't 's ' '' _ __ : :: . .. - -- / // \\ @ # , ; ! ? ( ) [
] { } < > " ` = == ~ $ % ^ & * + | 2023-05-08 2023-13-40 2024-02-29 2023-02-29 0000-01-01 0001-02-03T10:00 1st 22nd 4TH
v1.2 V12.3.4 vv1.2 camelCase HTTPServer XMLHttp2 foo_bar src/a.py std::vector A a 0 9 running policy skies dying
generously WORLD ing
"""
LONG = ["x" * 40, "q" * 128, "q" * 129, "aB" * 70, "1" * 129]
PIECES = [*WORDS.split(), *LONG, " ", " ", " ", "\n", "\t", "\x1c", ". ", "? "]
ASCII = st.one_of(
    st.text(st.characters(max_codepoint=127)),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=120).map(" ".join),
)


@given(ASCII)
def test_terms_are_those_of_the_reference(text: str):
    assert terms.compiled_terms.of(text) == terms.terms_in_python(text)


@pytest.mark.parametrize("word", sorted(terms.STOP_WORDS))
def test_stop_words_are_those_of_the_reference(word: str):
    for text in (word, word.upper(), f"{word} {word.upper()} Xavier", f"{word}{word}"):
        assert terms.compiled_terms.of(text) == terms.terms_in_python(text)


@given(
    ASCII,
    st.lists(st.sampled_from(["the", "polici", "run", "x", "a", "2023", "é", ""]), max_size=6),
    st.integers(2, 300),
)
def test_a_snippet_is_that_of_the_reference(text: str, words: list[str], limit: int):
    assert native.snippet(text, words, limit) == terms.snippet_in_python(text, words, limit)


def test_what_is_not_ascii_is_refused():
    for text in ("é", "\ud800"):
        with pytest.raises(ValueError, match="not ASCII"):
            terms.compiled_terms.of(text)
        with pytest.raises(ValueError, match="not ASCII"):
            native.snippet(text, [], 240)
