"""In what language a question and its first results are."""

from collections.abc import Sequence

import numpy as np
import pytest

from projections.search.languages import is_english, language_of
from projections.search.ranking import Pool
from projections.text.terms import terms
from projections.vectors.columns import TermRows, hashed
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


def _pool(texts: Sequence[str]) -> Pool:
    rows = [hashed(term.encode() for term in [*terms(text), "1", "may", "2026"]) for text in texts]
    lengths = np.array([len(row) for row in rows], np.int64)
    n = len(texts)
    none = np.zeros(n, np.int32)
    return Pool(TermRows(np.concatenate(rows), lengths), np.zeros(n), none - 1, none)


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_results_is_that_of_most_of_them(table: StaticTable, language: str):
    expected = language if language in ("English", "code") else "other"
    assert language_of(_pool([TEXTS[language]] * 3), [0, 1, 2], table) == expected


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
    assert language_of(_pool([text]), [0], table) != "other"


def test_only_the_first_results_tell_the_language(table: StaticTable):
    pool = _pool([TEXTS["German"]] * 10 + [TEXTS["English"]] * 10)
    assert language_of(pool, [*range(20)], table) == "other"
    assert language_of(pool, [*range(19, -1, -1)], table) == "English"


def test_results_without_words_are_in_english(table: StaticTable):
    assert language_of(_pool(["", ""]), [0, 1], table) == "English"


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
