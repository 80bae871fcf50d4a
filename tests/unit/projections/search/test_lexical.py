from pathlib import Path

import pytest

from projections.search.lexical import MAX_QUERY_TERMS, Lexical, link_or_copy


@pytest.fixture
def lexical(tmp_path: Path) -> Lexical:
    return Lexical(tmp_path / "lexical")


def test_a_document_is_found_by_any_of_the_terms_after_a_commit(lexical: Lexical):
    lexical.add(7, "green tea lemon", [])
    assert lexical.search(["tea"], [], 10) == []
    lexical.commit()
    assert lexical.search(["tea"], [], 10) == [7]
    assert lexical.search(["coffee", "lemon"], [], 10) == [7]
    assert lexical.search(["coffee"], [], 10) == []


def test_the_best_match_comes_first(lexical: Lexical):
    lexical.add(1, "tea coffee milk sugar water juice", [])
    lexical.add(2, "tea lemon", [])
    lexical.add(3, "tea lemon lemon", [])
    lexical.commit()
    assert lexical.search(["tea", "lemon"], [], 10)[0] == 3
    assert lexical.search(["tea", "lemon"], [], 10)[-1] == 1
    assert lexical.search(["tea", "lemon"], [], 1) == [3]


def test_every_facet_group_must_have_one_of_its_values(lexical: Lexical):
    lexical.add(1, "tea", ["kind=a", "tag=x"])
    lexical.add(2, "tea", ["kind=b", "tag=x"])
    lexical.add(3, "tea", ["kind=a", "tag=y"])
    lexical.commit()
    assert sorted(lexical.search(["tea"], [["kind=a", "kind=b"]], 10)) == [1, 2, 3]
    assert sorted(lexical.search(["tea"], [["kind=a"], ["tag=x"]], 10)) == [1]
    assert lexical.search(["tea"], [["kind=c"]], 10) == []


def test_a_facet_with_blanks_and_separators_is_one_value(lexical: Lexical):
    lexical.add(1, "tea", ["project\x1fblue whale / 鯨"])
    lexical.commit()
    assert lexical.search(["tea"], [["project\x1fblue whale / 鯨"]], 10) == [1]
    assert lexical.search(["tea"], [["project\x1fblue"]], 10) == []


def test_facets_do_not_change_the_order(lexical: Lexical):
    lexical.add(1, "tea tea", ["common"])
    lexical.add(2, "tea milk sugar", ["common", "rare"])
    lexical.commit()
    assert lexical.search(["tea"], [], 10) == lexical.search(["tea"], [["common", "rare"]], 10) == [1, 2]


def test_a_removed_document_is_gone_after_a_commit(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.add(2, "tea", [])
    lexical.commit()
    lexical.remove(1)
    lexical.commit()
    assert lexical.search(["tea"], [], 10) == [2]


def test_a_document_removed_before_its_first_commit_never_appears(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.remove(1)
    lexical.commit()
    assert lexical.search(["tea"], [], 10) == []


def test_nothing_asked_for_finds_nothing(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.commit()
    assert lexical.search([], [], 10) == []
    assert lexical.search(["tea"], [], 0) == []


def test_a_query_as_long_as_a_document_is_asked_by_its_first_terms(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.commit()
    words = [f"w{n}" for n in range(5000)]
    assert lexical.search(["tea", *words], [], 10) == [1]
    assert lexical.search([*words[:MAX_QUERY_TERMS], "tea"], [], 10) == []


def test_a_copy_is_an_index_of_its_own(lexical: Lexical, tmp_path: Path):
    """What is added or removed afterwards, on either side, stays on that side."""
    for n in range(50):
        lexical.add(n, f"tea w{n}", [])
        if n % 10 == 9:
            lexical.commit()
    lexical.copy_to(tmp_path / "snapshot")
    link_or_copy(tmp_path / "snapshot", tmp_path / "copy")
    copy = Lexical(tmp_path / "copy")
    assert len(copy.search(["tea"], [], 100)) == 50
    copy.add(100, "coffee", [])
    copy.remove(0)
    copy.commit()
    lexical.add(200, "juice", [])
    lexical.remove(1)
    lexical.commit()
    assert copy.search(["coffee"], [], 10) == [100]
    assert lexical.search(["coffee"], [], 10) == []
    assert lexical.search(["juice"], [], 10) == [200]
    assert copy.search(["juice"], [], 10) == []
    assert set(lexical.search(["tea"], [], 100)) == set(range(50)) - {1}
    assert set(copy.search(["tea"], [], 100)) == set(range(1, 50))
    again = tmp_path / "again"
    link_or_copy(tmp_path / "snapshot", again)
    assert set(Lexical(again).search(["tea"], [], 100)) == set(range(50))
