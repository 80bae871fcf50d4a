import pytest

from projections.text.changes import announces, asks_past


@pytest.mark.parametrize(
    "text",
    [
        "We no longer deploy on Fridays.",
        "The limit went down to 200.",
        "Decision 14 replaces 11.",
        "Ada took over billing.",
        "Wir deployen nicht mehr freitags.",
        "Stattdessen nehmen wir NATS.",
        "Ya no usamos Kafka.",
        "Pasamos a Postgres.",
        "Désormais on livre le jeudi.",
        "Agora usamos o Postgres.",
        "Da oggi usiamo Postgres.",
        "Теперь используем Postgres.",
        "发布改到周四。",
        "今日からPostgresを使います。",
        "이제 Postgres를 씁니다.",
    ],
)
def test_a_change_is_announced(text: str):
    assert announces(text)


@pytest.mark.parametrize(
    "text",
    [
        "We deploy on Tuesdays.",
        "Wir liefern am Dienstag aus.",
        "Usamos la base de datos MySQL.",
        "On livre le mardi.",
        "Usiamo MySQL.",
        "Мы используем Kafka.",
        "订单队列用Kafka。",
        "MySQLを使っています。",
        "MySQL을 씁니다.",
    ],
)
def test_a_plain_statement_announces_nothing(text: str):
    assert not announces(text)


@pytest.mark.parametrize(
    "question",
    [
        "What was the limit?",
        "When did we move to Postgres?",
        "Why do we use NATS?",
        "which broker did we use before NATS?",
        "Welche Datenbank hatten wir früher?",
        "¿Qué usábamos antes?",
        "Qu'utilisait-on avant ?",
        "O que era usado antes?",
        "Che cosa usava il team prima?",
        "Что использовали раньше?",
        "以前用什么数据库？",
        "以前は何を使っていましたか？",
        "예전에는 무엇을 썼나요?",
    ],
)
def test_a_question_about_the_past(question: str):
    assert asks_past(question)


@pytest.mark.parametrize(
    "question",
    [
        "What did we decide about currencies?",
        "when do we deploy?",
        "deploy day",
        "is the export job on?",
        "Was ist das Limit?",
        "Wann liefern wir aus?",
        "¿Qué base de datos usamos?",
        "现在用什么数据库？",
        "何を使っていますか？",
    ],
)
def test_a_question_about_what_is_so_now(question: str):
    assert not asks_past(question)
