"""In what language a question and its first results are."""

from collections.abc import Sequence

import numpy as np
import pytest
from indexes import entry_of

from projections.index.embedded import EmbeddedCandidates
from projections.index.replica import IndexReplica
from projections.search.candidates import Meaning
from projections.search.languages import is_english
from projections.search.question import Filter, Question
from projections.search.search import results_of
from projections.store.feed import Put
from projections.text.terms import terms
from projections.vectors.columns import hashed
from projections.vectors.model_files import packaged_model
from projections.vectors.static import StaticTable, load

TEXTS = {
    "English": "The nightly backup failed because the disk was full, so we moved the archive to the second server.",
    "code": "def _retry(fn, n_max=3): try: return fn(*args, **kw) except HTTPErr as e: self._q.put((e.errno, fn))",
    "German": "Die Sicherung in der Nacht ist gescheitert, weil auf dem Laufwerk kein Platz mehr war.",
    "French": "La sauvegarde de la nuit a échoué parce que le disque était plein, et nous avons déplacé les archives.",
    "Spanish": "La copia de seguridad de la noche falló porque el disco estaba lleno, y los archivos se movieron.",
    "Russian": "Ночное резервное копирование не удалось, потому что диск был заполнен, и мы перенесли архив на сервер.",
    "Chinese": "夜间备份失败了，因为磁盘已满，所以我们把归档移到了第二台服务器上。",
}


@pytest.fixture(scope="module")
def table() -> StaticTable:
    """The static vectors of the packaged model."""
    table = load(packaged_model())
    assert table is not None
    return table


def _language(table: StaticTable, texts: Sequence[str], question: str = "") -> str:
    """Return the language of the results of a question, of these texts."""
    index = IndexReplica(0, "none", table)
    entries = [entry_of(f"obs_{number:02}", f"{text} 1 May 2026") for number, text in enumerate(texts)]
    index.apply(0, [Put(entry) for entry in entries])
    candidates = EmbeddedCandidates(index, Filter(tenant="default", now_ms=0))
    wanted = Question(text=question, vector=None, words=terms(question))
    results = results_of(candidates, wanted, wanted.words, Meaning(None, None), np.arange(len(texts)))
    return ["English", "code", "other"][results.language]


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_results_is_that_of_most_of_them(table: StaticTable, language: str):
    expected = language if language in ("English", "code") else "other"
    assert _language(table, [TEXTS[language]] * 3) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Dan prefers green tea.",
        "Van needs a care plan by Friday.",
        "The office is in Los Angeles.",
        "int main(int argc, char **argv) { int n = 0; int i; for (i = 0; i < argc; i++) n += i; return n; }",
        "var a = 1; var b = 2; var total = a + b; del os.environ['A']; console.log(total);",
    ],
)
def test_names_and_code_are_not_in_another_language(table: StaticTable, text: str):
    assert _language(table, [text]) != "other"


def test_only_the_first_results_tell_the_language(table: StaticTable):
    texts = [TEXTS["German"]] * 10 + [TEXTS["English"]] * 10
    assert _language(table, texts, "Sicherung Laufwerk") == "other"
    assert _language(table, texts, "backup archive") == "English"


def test_results_without_words_are_in_english(table: StaticTable):
    assert _language(table, ["", ""]) == "English"


@pytest.mark.parametrize(
    ("question", "english", "surely"),
    [
        ("Where is the backup stored?", True, True),
        ("Zephyrion?", False, False),
        ("Warum schlug die nächtliche Sicherung fehl?", False, False),
        ("夜间备份为什么失败？", False, False),
        ("does Zephyrion use Qwertol?", True, False),
    ],
)
def test_a_question_is_in_english_by_its_words(table: StaticTable, question: str, *, english: bool, surely: bool):
    in_table = table.knows(hashed(term.encode() for term in terms(question)))
    assert is_english(question, in_table) == english
    assert is_english(question, in_table, surely=True) == surely
