from pathlib import Path

import pytest

from projections.search.lexical import Lexical, link_or_copy


@pytest.fixture
def lexical(tmp_path: Path) -> Lexical:
    return Lexical(tmp_path / "lexical")


def test_a_document_is_found_by_its_terms_after_a_commit(lexical: Lexical):
    lexical.add(7, "green tea lemon", [])
    assert lexical.saying("tea") == []
    lexical.commit()
    assert lexical.saying("tea") == [7]
    assert lexical.saying("coffee") == []


def near(lexical: Lexical, facets: list[list[str]], count: int = 10, matching: range = range(100)) -> list[str]:
    return lexical.near("tae", 1, facets, matching, count)


def test_every_facet_group_must_have_one_of_its_values(lexical: Lexical):
    lexical.add(1, "tea one", ["kind=a", "tag=x"])
    lexical.add(2, "tea two", ["kind=b", "tag=x"])
    lexical.add(3, "tea three", ["kind=a", "tag=y"])
    lexical.commit()
    assert near(lexical, [["kind=a", "kind=b"]]) == ["tea one", "tea two", "tea three"]
    assert near(lexical, [["kind=a"], ["tag=x"]]) == ["tea one"]
    assert near(lexical, [["kind=c"]]) == []


def test_a_facet_with_blanks_and_separators_is_one_value(lexical: Lexical):
    lexical.add(1, "tea", ["project\x1fblue whale / 鯨"])
    lexical.commit()
    assert near(lexical, [["project\x1fblue whale / 鯨"]]) == ["tea"]
    assert near(lexical, [["project\x1fblue"]]) == []


def test_documents_that_do_not_match_take_no_places_from_those_that_do(lexical: Lexical):
    for n in range(90, -1, -1):
        lexical.add(n, f"tea w{n}", [])
    lexical.commit()
    assert near(lexical, [], 2, range(60, 100)) == ["tea w60", "tea w61"]


def test_a_removed_document_is_gone_after_a_commit(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.add(2, "tea", [])
    lexical.commit()
    lexical.remove(1)
    lexical.commit()
    assert lexical.saying("tea") == [2]


def test_a_document_removed_before_its_first_commit_never_appears(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.remove(1)
    lexical.commit()
    assert lexical.saying("tea") == []


def test_a_copy_is_an_index_of_its_own(lexical: Lexical, tmp_path: Path):
    """What is added or removed afterwards, on either side, stays on that side."""
    for n in range(50):
        lexical.add(n, f"tea w{n}", [])
        if n % 10 == 9:
            lexical.commit()
    lexical.copy_to(tmp_path / "snapshot")
    link_or_copy(tmp_path / "snapshot", tmp_path / "copy")
    copy = Lexical(tmp_path / "copy")
    assert len(copy.saying("tea")) == 50
    copy.add(100, "coffee", [])
    copy.remove(0)
    copy.commit()
    lexical.add(200, "juice", [])
    lexical.remove(1)
    lexical.commit()
    assert copy.saying("coffee") == [100]
    assert lexical.saying("coffee") == []
    assert lexical.saying("juice") == [200]
    assert copy.saying("juice") == []
    assert set(lexical.saying("tea")) == set(range(50)) - {1}
    assert set(copy.saying("tea")) == set(range(1, 50))
    again = tmp_path / "again"
    link_or_copy(tmp_path / "snapshot", again)
    assert set(Lexical(again).saying("tea")) == set(range(50))
