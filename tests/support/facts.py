"""Facts that differ in one number, name, unit or negation, and restatements, in five languages. The same every time."""

import random
from collections.abc import Iterator
from typing import NamedTuple

FRAMES = {
    "en": [
        "The {thing} of {name} needs {number} {unit} on the {place}",
        "{name} moved the {thing} to the {place} and it takes {number} {unit}",
    ],
    "de": [
        "{thing} von {name} braucht {number} {unit} auf {place}",
        "{name} hat {thing} auf {place} verlegt, das dauert {number} {unit}",
    ],
    "es": [
        "{thing} de {name} necesita {number} {unit} en {place}",
        "{name} trasladó {thing} a {place} y tarda {number} {unit}",
    ],
    "fr": [
        "{thing} de {name} demande {number} {unit} sur {place}",
        "{name} a déplacé {thing} vers {place} et cela prend {number} {unit}",
    ],
    "zh": ["{name}的{thing}在{place}上需要{number}{unit}", "{name}把{thing}移到了{place}，需要{number}{unit}"],
}
WORDS = {
    "en": {
        "thing": ["nightly backup", "search index", "payment queue"],
        "name": ["Alice", "Alicia", "Jon", "John", "Adam", "Adams"],
        "unit": ["minutes", "hours", "MB", "GB"],
        "place": ["staging cluster", "database host", "old gateway"],
    },
    "de": {
        "thing": ["die nächtliche Sicherung", "der Suchindex", "die Warteschlange"],
        "name": ["Anna", "Anne", "Jan", "Jana"],
        "unit": ["Minuten", "Stunden", "MB", "GB"],
        "place": ["dem Testserver", "dem Datenbankrechner", "dem alten Gateway"],
    },
    "es": {
        "thing": ["la copia nocturna", "el índice de búsqueda", "la cola de pagos"],
        "name": ["Mario", "María", "Luis", "Luisa"],
        "unit": ["minutos", "horas", "MB", "GB"],
        "place": ["el servidor de pruebas", "la base de datos", "la pasarela antigua"],
    },
    "fr": {
        "thing": ["la sauvegarde nocturne", "le moteur de recherche", "la file des paiements"],
        "name": ["Jean", "Jeanne", "Louis", "Louise"],
        "unit": ["minutes", "heures", "Mo", "Go"],
        "place": ["le serveur de test", "la base de données", "la vieille passerelle"],
    },
    "zh": {
        "thing": ["夜间备份任务", "搜索索引服务", "付款消息队列"],
        "name": ["王小明", "王小民", "李华", "李花"],
        "unit": ["分钟", "小时", "兆", "吉"],
        "place": ["测试服务器", "数据库主机", "旧的网关"],
    },
}
NOT = {
    "en": ("needs", "never needs"),
    "de": ("braucht", "braucht nie"),
    "es": ("necesita", "no necesita"),
    "fr": ("demande", "ne demande pas"),
    "zh": ("需要", "不需要"),
}
TAKES = {
    "en": ("takes", "never takes"),
    "de": ("dauert", "dauert nicht"),
    "es": ("tarda", "no tarda"),
    "fr": ("prend", "ne prend pas"),
}
PLURALS = {
    "en": [("nightly backup", "nightly backups"), ("payment queue", "payment queues"), ("cluster", "clusters")],
    "es": [("minutos", "minuto"), ("horas", "hora")],
    "fr": [("minutes", "minute"), ("heures", "heure"), ("paiements", "paiement")],
    "de": [("Minuten", "Minute"), ("Stunden", "Stunde")],
    "zh": [],
}


class Pair(NamedTuple):
    """Two texts, their language, and how they differ."""

    language: str
    how: str
    one: str
    other: str


def distinct_pairs(count: int = 500) -> Iterator[Pair]:
    """Pairs of facts of which both may be true, or only one; each differs in one thing."""
    draw = random.Random(4711)
    for number in range(count):
        language = list(FRAMES)[number % 5]
        how = ("number", "name", "unit", "negation")[number // 5 % 4]
        frame, words = draw.choice(FRAMES[language]), _words(language, draw)
        other = dict(words)
        if how == "number":
            other["number"] = str(int(words["number"]) + draw.choice([1, 10, 100]))
        elif how != "negation":
            other[how] = draw.choice([first for first in WORDS[language][how] if first != words[how]])
        first, two = frame.format(**words), frame.format(**other)
        if how == "negation":
            fields, denied = NOT[language] if NOT[language][0] in first else TAKES[language]
            two = first.replace(fields, denied, 1)
        assert first != two, (first, how)
        yield Pair(language, how, first, two)


def restatements(count: int = 200) -> Iterator[Pair]:
    """Pairs that state the same: one differs in case, punctuation, spacing, articles or the form of a word."""
    draw = random.Random(815)
    kinds = {"case": _case, "punctuation": _punctuation, "spacing": _spacing, "articles": _articles, "forms": _forms}
    for number in range(count):
        language = list(FRAMES)[number % 5]
        how = list(kinds)[number // 5 % 5]
        item = draw.choice(FRAMES[language]).format(**_words(language, draw))
        other = kinds[how](item, language)
        yield Pair(language, how, item, other if other != item else f"  {item}. ")


def _words(language: str, draw: random.Random) -> dict[str, str]:
    words = {name: draw.choice(choices) for name, choices in WORDS[language].items()}
    return {**words, "number": str(draw.randrange(2, 9_000))}


def _case(text: str, language: str) -> str:
    return text.upper()


def _punctuation(text: str, language: str) -> str:
    return f"“{text}”!"


def _spacing(text: str, language: str) -> str:
    return text.replace(" ", "  ") + "\n" if " " in text else " ".join(text[:4]) + text[4:]


def _articles(text: str, language: str) -> str:
    for article in ("the ", "The ", "la ", "el ", "le ", "die ", "der ", "dem ", "的"):
        text = text.replace(article, "", 1) if article in text else text
    return text


def _forms(text: str, language: str) -> str:
    for form, another in PLURALS[language]:
        if form in text:
            return text.replace(form, another, 1)
    return text
