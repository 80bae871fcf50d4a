import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.text.tokens import estimated_tokens, fitting


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("tea", 1), ("teapot", 2), ("\u8336\u58f6", 2), ("\ud800", 1)])
def test_four_bytes_are_a_token(text: str, tokens: int):
    assert estimated_tokens(text) == tokens


@given(st.lists(st.text(max_size=30)))
def test_parts_have_no_fewer_tokens_than_the_whole(parts: list[str]):
    assert sum(map(estimated_tokens, parts)) >= estimated_tokens("".join(parts))


@pytest.mark.parametrize(
    ("tokens", "selected"), [([5, 5], [5, 5]), ([5, 9, 4], [5, 4]), ([11], []), ([], [])],
    ids=["all", "a shorter one after one that does not fit", "none", "of none"],
)  # fmt: skip
def test_items_fit_together(tokens: list[int], selected: list[int]):
    assert fitting(tokens, lambda size: size, 10) == selected
