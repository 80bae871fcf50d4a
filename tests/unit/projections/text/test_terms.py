"""The index terms of texts and queries, and snippets: the part of a text that a query's words are in."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.nouns.index_entry import index_terms
from projections.text.cues import PROMPT
from projections.text.terms import (
    SNIPPET_CHARS,
    folded,
    folded_letter,
    required_terms,
    snippet,
    terms,
    terms_in_python,
    wholes,
)

FILLER = "Nothing was wrong there, as far as logs tell. "
ANSWER = "The checkout timed out because the Redis client pool does not reconnect after a restart."
LONG = FILLER * 10 + ANSWER + " " + FILLER * 10


def told(text: str, query: str, limit: int = SNIPPET_CHARS) -> str:
    return snippet(text, terms(query), limit)


def test_a_short_text_is_told_whole_on_one_line():
    assert told("Short\n and  good.", "good") == "Short and good."


def test_a_snippet_begins_with_the_sentence_in_which_most_of_the_querys_words_are():
    found = told(LONG, "why did checkout fail when redis restarted?")
    assert found.startswith(f"…{ANSWER}")
    assert found.endswith("…")


def test_a_word_is_found_by_its_stem():
    assert "policies" in told(FILLER * 10 + "Two policies apply. " + FILLER * 10, "policy")


def test_a_word_inside_another_one_is_no_match():
    text = "The cartographer draws. " + FILLER * 10 + "The cart is empty. " + FILLER * 10
    assert "The cart is empty" in told(text, "cart empty")


def test_a_rare_word_counts_more_than_a_frequent_one():
    text = "The pool, the pool, the pool is busy. " * 10 + "The valve leaks. " + FILLER * 10
    assert "The valve leaks" in told(text, "pool valve")


def test_a_text_that_says_none_of_the_words_is_cut_at_its_end():
    found = told(LONG, "sourdough")
    assert found.startswith(FILLER.strip())
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Die \u00dcberweisung schlug fehl.", "\u00dcberweisung"),
        ("\u041f\u043b\u0430\u0442\u0451\u0436 fehlt.", "\u043f\u043b\u0430\u0442\u0451\u0436"),
        ("\u51fa\u73b0\u4e86\u8fde\u63a5\u6c60\u8d85\u65f6\u3002", "\u8fde\u63a5\u6c60\u8d85\u65f6"),
        ("Caf\u00e9 cr\u00e8me is sold out.", "cafe"),
    ],
)
def test_words_with_accents_and_of_scripts_without_spaces_are_found(said: str, query: str):
    assert said in told(FILLER * 10 + said + " " + FILLER * 10, query)


@given(st.text(st.characters()), st.text(max_size=3))
def test_a_text_folds_letter_by_letter(text: str, other: str):
    assert folded(text) == "".join(map(folded_letter, text))
    assert folded(text + other) == folded(text) + folded(other)


@given(st.text(max_size=3_000), st.text(max_size=60), st.integers(20, 400))
def test_a_snippet_is_one_line_within_its_limit(text: str, query: str, limit: int):
    found = told(text, query, limit)
    assert len(found) <= limit
    assert "\n" not in found


@pytest.mark.parametrize("date", ["2026-13-45", "2026-02-30"])
def test_an_impossible_date_is_itself_and_its_parts(date: str):
    assert terms(date) == terms_in_python(date) == [date, *date.split("-")]


def finds(query: str, text: str) -> bool:
    return {*terms(query)} <= {*index_terms(text, datetime(2026, 1, 2, tzinfo=UTC)).split()}


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("用户的JWT存放在会话里", ["JWT", "会话", "用户"]),
        ("订单事件用Kafka发送", ["Kafka", "发送"]),
        ("サーバーはnginxで動いています", ["nginx", "サーバー"]),
        ("重跑gen-itgc后50条悬空引用清零", ["itgc", "gen-itgc", "50", "悬空引用"]),
        ("OrderService类不能直接调用", ["OrderService", "order", "调用"]),
        ("ตั้งค่าnginxใหม่", ["nginx", "ตั้งค่า"]),
        ("서버는 Redis를 쓴다", ["Redis", "Redis는", "서버"]),
    ],
)
def test_a_latin_word_or_number_next_to_another_script_is_found(text: str, queries: list[str]):
    assert [query for query in queries if not finds(query, text)] == []


def test_a_long_sentence_of_an_unspaced_script_is_found_by_a_part_of_it():
    assert finds("超时", "没有标点" * 40 + "连接池超时" + "的长句子" * 40)


@pytest.mark.parametrize("text", ["我喜欢喝绿茶和咖啡", "绿茶", "茶", "お茶を飲む", "JWT茶"])
def test_a_text_is_found_by_one_of_its_chinese_characters(text: str):
    assert finds("茶", text)
    assert not finds("猫", text)


def test_chinese_characters_of_a_prompt_are_not_added():
    assert "茶" not in index_terms("绿茶", datetime(2026, 1, 2, tzinfo=UTC), also=[PROMPT]).split()


@pytest.mark.parametrize(
    "forms",
    [
        "결제 결제가 결제를 결제는 결제에서는 결제의",
        "서버 서버에서 서버로 서버까지 서버들은",
        "값 값을 값에서 값까지",
        "회의 회의가 회의를 회의에서",
        "고양이 고양이가 고양이를",
        "가을 가을이 가을에는",
        "Redis Redis를 Redis에서는",
        "خادم الخادم بالخادم والخادم للخادم",
        "واجهة الواجهة والواجهة",
        "بيانات البيانات بالبيانات",
        "сервер сервера серверами",
        "новый нового новая",
        "किताब किताबें किताबों",
        "πληρωμή πληρωμές πληρωμών",
    ],
)
def test_forms_of_a_word_are_one_term(forms: str):
    assert len({*map(tuple, map(terms, forms.split()))}) == 1


@pytest.mark.parametrize("word", ["회의", "나이", "평가", "프로", "وقت", "ولد", "район"])
def test_a_short_word_that_ends_like_a_particle_or_begins_like_an_article_stays_whole(word: str):
    assert terms(word) == [word]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Deploy finished 🚀 all green", "🚀"),
        ("✅ done", "✅"),
        ("by 👩🏽‍💻 today", "👩‍💻"),
        ("by 👩🏽‍💻 today", "👩"),
        ("ship it ❤️", "❤"),
        ("Berlin 🇩🇪", "🇩🇪"),
        ("部署完成🚀", "🚀"),
    ],
)
def test_a_pictograph_finds_the_text_that_has_it(text: str, query: str):
    assert terms(query)
    assert finds(query, text)
    assert not finds(query, "Build broke 🔥 on main")


def test_a_snippet_contains_the_pictograph_of_the_query():
    assert "🚀" in told(FILLER * 10 + "Done 🚀. " + FILLER * 10, "🚀")


def test_lines_of_tables_and_arrows_are_no_terms():
    assert terms("│ a1 ├── b1 → ● x1") == ["a1", "b1", "x1"]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("v1.2.4", ["v1.2.4", "1.2.4", "1.2"]),
        ("4.2.1", ["4.2"]),
        ("python3.12.3", ["python3.12", "python3.12.3"]),
        ("std::vector<std::unique_ptr<Node>> children_", ["unique_ptr", "std::unique_ptr"]),
        ("call tokio::task::spawn_blocking", ["spawn_blocking"]),
        ("User::find_by_email", ["find_by_email"]),
        ("users.find_by_email", ["find_by_email"]),
        ("src/auth.py:12", ["auth.py"]),
        (r"C:\my-app\main_loop.rs", ["main_loop.rs", "main_loop", "my-app"]),
        ("self->node_count", ["node_count"]),
    ],
)
def test_a_version_and_a_qualified_name_are_found_by_their_parts(text: str, queries: list[str]):
    for query in queries:
        assert terms(query)[0] in terms(text)
        assert finds(query, text)


def test_a_long_version_has_no_beginnings():
    assert terms(".".join(["1"] * 100)) == ["1"] * 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prod-us", ["prod-us", "prod", "=us"]),
        ("find_by_id", ["find_by_id", "find", "=by", "id"]),
        ("isReady", ["isreadi", "=is", "readi"]),
        ("not-found", ["not-found", "=not", "found"]),
    ],
)
def test_a_stop_word_in_a_name_is_a_term(text: str, expected: list[str]):
    assert terms(text) == expected
    assert wholes(text) == [expected[1:]]


def test_names_that_differ_in_a_stop_word_are_told_apart():
    assert not finds("prod-us", "prod-eu and prod-in")
    assert required_terms("prod-us") == ["prod"]


@pytest.mark.parametrize(
    ("text", "has_name"),
    [
        ("Ask Will about it", True),
        ("and, finally, Will came", True),
        ("Will came", False),
        ("It works. Will it last?", False),
        ("How Will The Server Start", False),
        ("ask will", False),
    ],
)
def test_a_stop_word_with_a_capital_inside_a_sentence_is_a_name(text: str, has_name: bool):
    assert ("=will" in terms(text)) == has_name


@pytest.mark.parametrize("query", ["Will", "Will?", "Who is Will?", "where is Will"])
def test_a_short_question_finds_a_name_that_is_a_stop_word(query: str):
    assert "=will" in terms(query)


GLUED = st.lists(
    st.sampled_from(["用户", "を", "결제", "서버에서는", "하", "JWT", "gen-itgc", "50", "v1.2.3", "ไทย", "x_y", " "])
)


@given(GLUED)
def test_every_latin_run_of_a_text_is_found(parts: list[str]):
    text = "".join(parts)
    for run in re.findall(r"[a-zA-Z0-9]+(?:[-._][a-zA-Z0-9]+)*", text):
        assert {*terms(run)} <= {*terms(text)}


@given(st.text(st.sampled_from("가결제를이에서는의로나JWT1 -")))
def test_korean_words_keep_a_term(text: str):
    assert all(terms(text))
    assert terms(text) or not re.search(r"\w", text)


@given(st.text(st.sampled_from("والبكفخادمةهيn ")))
def test_arabic_words_keep_a_term(text: str):
    assert all(terms(text))
    assert bool(terms(text)) == bool(text.strip())


@pytest.mark.parametrize("limit", [60, 100, 240])
@pytest.mark.parametrize("before", [50, 110, 119, 121, 400])
def test_a_snippet_has_what_matches_however_short_it_is(limit: int, before: int):
    text = f"{'x' * (before - 1)} the port is 8090 since then. {'y' * 400}"
    assert "port is 8090" in snippet(text, ["port", "8090"], limit)


def test_a_snippet_ends_at_a_sentence_only_if_little_room_is_lost():
    early, late = f"The port is 8090. {'word ' * 100}", f"The port is 8090, {'word ' * 35}it is. {'word ' * 100}"
    assert len(snippet(early, ["port"], 240)) > 230
    assert snippet(late, ["port"], 240).endswith("word it is.…")
