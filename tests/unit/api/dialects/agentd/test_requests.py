import pytest

from api.dialects.agentd.records import Listing, creator, listing, not_blank
from ingest.errors import CommandRejected
from ingest.names import comma_separated


def test_what_is_not_given_is_the_default():
    assert listing({}) == Listing()


def test_choices_have_no_case_and_names_have():
    asked = listing({"type": "Question", "visibility": "PRIVATE", "created_by": "Ada", "tag": "A,b"})
    assert asked == Listing(type="question", visibility="private", created_by="Ada", tag="A,b")


@pytest.mark.parametrize(("given", "read"), [("0", 1), ("1", 1), ("200", 200), ("201", 200), ("9" * 20, 200)])
def test_a_limit_is_brought_within_its_bounds(given: str, read: int):
    assert listing({"limit": given}).limit == read


@pytest.mark.parametrize("given", ["", "-1", "1.0", "1e3", "ten", " 1", "٣", "9" * 21])
def test_what_is_no_number_is_refused_with_its_name(given: str):
    for field in ("limit", "offset"):
        with pytest.raises(CommandRejected, match=field):
            listing({field: given})


@pytest.mark.parametrize("field", ["type", "visibility"])
def test_an_unknown_choice_is_refused_with_those_there_are(field: str):
    for given in ("secret", "", "public,private"):
        with pytest.raises(CommandRejected, match=rf"unknown {field} .*; there are: .*"):
            listing({field: given})


def test_a_list_of_names_is_trimmed_and_has_no_empty_ones():
    assert comma_separated(" a, b c ,,\t,d,") == ["a", "b c", "d"]
    assert comma_separated("") == []


def test_nobody_creates_nothing():
    creator(" ada ")
    not_blank(" x ", "content")
    for name in ("", " \n", "*"):
        with pytest.raises(CommandRejected, match="created_by"):
            creator(name)
    with pytest.raises(CommandRejected, match="content"):
        not_blank("\t", "content")
