import numpy as np
import pytest

from projections.search.ranking import (
    ANSWERED_FROM,
    CORRECTED,
    EXPECTED_COSINE,
    PART,
    confidence,
    confidence_by_words,
    idf_of,
)

IDF = idf_of([3, 40, 0], 100)
KNOWN = np.ones(3, np.bool_)
NAN = float("nan")


def sure(
    said: list[list[int]], static: list[float], cosine: list[float] | None = None, known: list[int] | None = None
) -> list[float]:
    rows = np.array(said, np.float64)
    cosines = np.array([NAN] * len(said) if cosine is None else cosine)
    knows = KNOWN if known is None else np.array(known, np.bool_)
    return confidence(rows, np.minimum(rows, 1.0), IDF, np.array(static), cosines, knows).tolist()


def test_a_rare_word_tells_more_than_a_frequent_one_and_one_that_nobody_says_most():
    assert IDF[2] > IDF[0] > IDF[1] > 0


def test_who_says_all_of_the_question_is_surer_than_who_says_its_frequent_word():
    all_of_it, frequent = sure([[1, 1, 1], [0, 1, 0]], [0.5, 0.5])
    assert all_of_it > 0.9
    assert all_of_it > frequent


def test_what_is_nearer_in_meaning_is_surer():
    near, far = sure([[1, 1, 0], [1, 1, 0]], [0.8, 0.1])
    assert near > far
    near, far = sure([[1, 1, 0], [1, 1, 0]], [0.5, 0.5], [0.8, 0.1])
    assert near > far


def test_a_document_without_a_models_vector_counts_as_if_its_cosine_were_barely_an_answers():
    waiting, embedded, near = sure([[1, 1, 0]] * 3, [0.5] * 3, [NAN, EXPECTED_COSINE, 0.6])
    assert waiting == embedded < near


def test_a_question_about_what_nobody_ever_said_has_no_answer():
    assert sure([[0, 1, 0]], [0.1])[0] < ANSWERED_FROM


def test_a_name_that_neither_the_documents_nor_the_model_know_makes_an_answer_less_likely():
    """Other words may be said in other words; a name may not."""
    word, name = (sure([[1, 1, 0]], [0.5], [0.5], [1, 1, knows])[0] for knows in (1, 0))
    assert name < word
    assert sure([[1, 1, 1]], [0.5], [0.5], [1, 1, 0]) == sure([[1, 1, 1]], [0.5], [0.5], [1, 1, 1])


def test_a_corrected_word_is_trusted_half():
    rows, static = np.ones((1, 3)), np.array([0.5])
    sure = [
        float(confidence(rows, rows, IDF, static, static, KNOWN, np.array([1.0, 1.0, last]))[0])
        for last in (1.0, CORRECTED, 0.0)
    ]
    assert sure[0] > sure[1] > sure[2]


def test_how_often_a_word_is_said_does_not_count():
    assert sure([[1, 1, 1]], [0.3]) == sure([[7, 2, 9]], [0.3])


def test_a_document_without_a_static_vector_is_judged_by_its_words():
    assert sure([[1, 1, 1]], [NAN]) == sure([[1, 1, 1]], [0.0])


@pytest.mark.parametrize("at", [0, 20, 40])
def test_a_long_question_is_judged_by_its_best_part_wherever_that_is(at: int):
    terms = 60
    rows = np.zeros((2, terms))
    rows[0, at : at + PART] = 1
    idf, static = np.full(terms, 5.0), np.full(2, 0.4)
    answer, nothing = confidence(rows, rows, idf, static, static, np.ones(terms, np.bool_))
    assert answer > 0.5
    assert nothing < answer


def test_a_short_question_has_no_parts():
    rows = np.zeros((1, 24))
    rows[0, :8] = 1
    words, half = np.full(24, 5.0), np.full(1, 0.3)
    (sure,) = confidence(rows, rows, words, half, half, np.ones(24, np.bool_))
    assert sure < 0.5


def test_removed_documents_that_are_still_counted_make_no_word_negative():
    assert (idf_of([12], 10) > 0).all()


def test_no_candidates_and_no_words_are_no_error():
    nothing = np.zeros(0)
    assert confidence(np.zeros((0, 3)), np.zeros((0, 3)), IDF, nothing, nothing, KNOWN).shape == (0,)
    rows, two = np.zeros((2, 0)), np.zeros(2)
    assert confidence(rows, rows, nothing, two, two, np.zeros(0, np.bool_)).tolist() == [0, 0]


def test_of_a_few_documents_a_word_that_none_says_does_not_outweigh_the_others():
    """As with "why did checkout fail?" on a new server, where one of three documents says "checkout"."""
    said, unsaid = idf_of([1, 0], 3)
    assert unsaid < 1.25 * said


def test_of_words_that_no_vector_knows_some_are_enough_but_every_number_is_needed():
    other_ticket, ticket, nothing = confidence_by_words(
        ["proj-9999", "proj", "9999"], np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0]], np.float64), IDF
    )
    assert other_ticket == nothing == 0
    assert ticket > ANSWERED_FROM
    (bigrams,) = confidence_by_words(["测试", "试付", "付款"], np.array([[1.0, 0, 0]]), IDF)
    assert bigrams > ANSWERED_FROM
