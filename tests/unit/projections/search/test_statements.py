"""What two texts state: the same, or something else."""

import pytest

from projections.search.similarity import LONG, differ_in_facts, statement_key, states_the_same

WORDS = " ".join(f"word{n}" for n in range(40))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cart is empty.", "the cart  is EMPTY!"),
        ("The caches of both nodes are cleared", "caches of both nodes cleared"),
        ("The port of the node is closed", "the ports of the nodes are closed"),
        ("It doesn\u2019t work", "it does not work!"),
        ("The disk has 10GB free", "disk has 10 GB free."),
        ("Well-known ports", "Well known ports"),
        ("\u201cQuoted\u201d \u2014 text (here)", "quoted text here"),
        ("- use tabs, never spaces", "Use tabs never spaces"),
        ("THE CACHE IS CLEARED", "the cache is cleared"),
        ("Der Dienst ist aktiv.", "Dienst aktiv"),
        ("El servidor est\u00e1 en Madrid", "servidor en Madrid"),
        ("La sauvegarde tourne la nuit", "sauvegarde tourne la nuit !"),
        (
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442.",
            "\u0441\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
        ),
        ("\u4f7f\u7528Redis\u7f13\u5b58\u3002", "\u4f7f\u7528 Redis \u7684\u7f13\u5b58"),
        ("\u6570\u636e\u5e93", "\u6570\u636e\u5e93"),
        ("", ""),
        ("!!!", "!!!"),
    ],
)
def test_case_punctuation_spacing_plurals_and_function_words_state_nothing(one: str, other: str):
    assert states_the_same(one, other)
    assert states_the_same(other, one)
    assert statement_key(one) == statement_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice is allergic to peanuts", "Alicia is allergic to peanuts"),
        ("Adam is on call", "Adams is on call"),
        ("Ada's son is ill", "Ada is ill"),
        ("Build 4711 passed", "Build 4712 passed"),
        ("The port is 8080.", "The port is 8081."),
        ("It costs 1,200 euros", "It costs 1,900 euros"),
        ("It costs 5 EUR", "It costs 5 USD"),
        ("It costs $5", "It costs \u20ac5"),
        ("The disk takes 5 MB", "the disk takes 5 Mb"),
        ("A wall of 6' height", 'A wall of 6" height'),
        ("At -5 degrees it stops", "At 5 degrees it stops"),
        ("Write it in C++", "Write it in C#"),
        ("Version 1.2.4 is out", "Version 12.4 is out"),
        ("Ask api.example.com", "Ask api.example.org"),
        ("Run it with --force", "Run it with force"),
        ("Server A is down", "Server B is down"),
        ("Server A is down", "Server is down"),
        ("IT is slow", "it is slow"),
        ("The backup is enabled", "The backup is not enabled"),
        ("The backup is enabled", "The backup isn't enabled"),
        ("The backup is enabled", "Is the backup enabled?"),
        ("The office is in Berlin", "The office was in Berlin"),
        ("Deploys run before tests", "Deploys run after tests"),
        ("We migrate from Postgres to MySQL.", "We migrate from MySQL to Postgres."),
        ("Backups are encrypted at rest.", "Backups are not encrypted at rest."),
        (WORDS, f"{WORDS} more"),
        ("a " * LONG + "x", "a " * LONG + "y"),
        ("Der Dienst ist aktiv", "Der Dienst ist nicht aktiv"),
        ("Es gibt eine Kopie", "Es gibt keine Kopie"),
        ("El backup est\u00e1 activo", "El backup no est\u00e1 activo"),
        ("La cl\u00e9 est valide", "La cl\u00e9 n'est pas valide"),
        (
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u043d\u0435 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
        ),
        ("\u5907\u4efd\u5df2\u542f\u7528", "\u5907\u4efd\u672a\u542f\u7528"),
        ("\u670d\u52a1\u5668\u5728\u4e1c\u4eac", "\u670d\u52a1\u5668\u5728\u5927\u962a"),
        ("!!!", "???"),
    ],
)
def test_any_other_word_states_something_else(one: str, other: str):
    assert not states_the_same(one, other)
    assert not states_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("ada rows every single morning", "ada rows every single evening", False),
        ("the build 4711 passed", "the build 4712 passed", True),
        ("It works for Alice", "It works for Bob", True),
        ("Alice may enter", "Bob may enter", True),
        ("it takes 5 minutes", "it takes 5 hours", True),
        ("the backup works", "the backup never works", True),
        ("from Postgres to MySQL", "from MySQL to Postgres", True),
        ("\u670d\u52a1\u5668\u5728\u4e1c\u4eac", "\u670d\u52a1\u5668\u5728\u5927\u962a", True),
        ("Ada rows", "ADA ROWS", False),
    ],
)
def test_numbers_names_units_and_negations_are_facts(one: str, other: str, differ: bool):
    assert differ_in_facts(one, other) is differ
    assert differ_in_facts(other, one) is differ
