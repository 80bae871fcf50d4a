import numpy as np

from projections.search.confidence import ANSWERED_FROM, CORRECTED, confidence, idf_of

IDF = idf_of([3, 40, 0], 100)


def sure(said: list[list[int]], static: list[float]) -> list[float]:
    rows = np.array(said, np.float64)
    return confidence(rows, np.minimum(rows, 1.0), IDF, np.array(static)).tolist()


def test_a_rare_word_tells_more_than_a_frequent_one_and_one_that_nobody_says_most():
    assert IDF[2] > IDF[0] > IDF[1] > 0


def test_who_says_all_of_the_question_is_surer_than_who_says_its_frequent_word():
    all_of_it, frequent = sure([[1, 1, 1], [0, 1, 0]], [0.5, 0.5])
    assert all_of_it > 0.9
    assert all_of_it > frequent


def test_what_is_nearer_in_meaning_is_surer():
    near, far = sure([[1, 1, 0], [1, 1, 0]], [0.8, 0.1])
    assert near > far


def test_a_question_about_what_nobody_ever_said_has_no_answer():
    assert sure([[0, 1, 0]], [0.1])[0] < ANSWERED_FROM


def test_a_corrected_word_is_trusted_half():
    rows, static = np.ones((1, 3)), np.array([0.5])
    sure = [float(confidence(rows, rows, IDF, static, np.array([1.0, 1.0, last]))[0]) for last in (1.0, CORRECTED, 0.0)]
    assert sure[0] > sure[1] > sure[2]


def test_how_often_a_word_is_said_does_not_count():
    assert sure([[1, 1, 1]], [0.3]) == sure([[7, 2, 9]], [0.3])


def test_a_document_without_a_vector_is_judged_by_its_words():
    assert sure([[1, 1, 1]], [float("nan")]) == sure([[1, 1, 1]], [0.0])


def test_removed_documents_that_are_still_counted_make_no_word_negative():
    assert (idf_of([12], 10) > 0).all()


def test_no_candidates_and_no_words_are_no_error():
    assert confidence(np.zeros((0, 3)), np.zeros((0, 3)), IDF, np.zeros(0)).shape == (0,)
    assert confidence(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(0), np.zeros(2)).tolist() == [0, 0]


def test_of_a_few_documents_a_word_that_none_says_does_not_outweigh_the_others():
    """As with "why did checkout fail?" on a new server, where one of three documents says "checkout"."""
    said, unsaid = idf_of([1, 0], 3)
    assert unsaid < 1.25 * said
