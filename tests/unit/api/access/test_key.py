"""What a caller sends as its key."""

import pytest

from api.access.keys import KeyToken, mint, parse


def test_a_new_token_is_read_back_as_what_it_is():
    token = mint()
    assert parse(str(token)) == token
    assert len(str(token)) == len("mnk_") + 12 + 1 + 43 + 6


def test_every_token_is_another_and_its_digest_says_nothing_of_its_id():
    tokens = [mint() for _ in range(50)]
    assert len({one.id for one in tokens}) == len({one.secret for one in tokens}) == 50
    assert KeyToken("a" * 12, tokens[0].secret).digest == tokens[0].digest
    assert len(tokens[0].digest) == 64


@pytest.mark.parametrize("place", [4, 10, 20, 45, -1])
def test_one_wrong_character_is_recognised(place: int):
    text = str(mint())
    other = "b" if text[place] != "b" else "c"
    assert parse(text[:place] + other + text[place:][1:]) is None


@pytest.mark.parametrize("text", ["", "mnk_", "Bearer", "mnk_a_b", "x" * 66, "mnk_" + "é" * 12 + "_" + "a" * 49])
def test_text_that_is_not_a_token_is_rejected(text: str):
    assert parse(text) is None


def test_the_representation_of_a_token_has_no_secret():
    token = mint()
    assert token.secret not in repr(token)
