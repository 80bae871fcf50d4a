from datetime import timedelta

from factories import minute

from projections.condensing.llm.assistant import CLOSED, PAUSE, WINDOW, Breaker, BreakerState, enter, failed, succeeded

SECOND = timedelta(seconds=1)
START = minute(0)


def opened() -> Breaker:
    breaker = CLOSED
    for n in range(3):
        breaker = failed(breaker, START + n * SECOND)
    return breaker


OPENED_AT = START + 2 * SECOND


def test_a_closed_breaker_lets_everybody_in():
    assert enter(CLOSED, START) == CLOSED


def test_three_failures_within_the_window_open_it():
    two = failed(failed(CLOSED, START), START + WINDOW / 2)
    assert two.state is BreakerState.CLOSED
    three = failed(two, START + WINDOW - SECOND)
    assert three.state is BreakerState.OPEN
    assert enter(three, START + WINDOW) is None


def test_failures_that_left_the_window_do_not_count():
    breaker = CLOSED
    for n in range(10):
        breaker = failed(breaker, START + n * WINDOW / 2)
    assert breaker.state is BreakerState.CLOSED
    assert len(breaker.failures) == 2


def test_answers_between_failures_do_not_hide_them():
    breaker = failed(succeeded(failed(failed(CLOSED, START), START)), START)
    assert breaker.state is BreakerState.OPEN


def test_an_open_breaker_lets_nobody_in_before_the_pause_is_over():
    assert enter(opened(), OPENED_AT + PAUSE - SECOND) is None


def test_after_the_pause_one_caller_tries_and_the_others_wait():
    trial = enter(opened(), OPENED_AT + PAUSE)
    assert trial is not None
    assert trial.state is BreakerState.HALF_OPEN
    assert enter(trial, OPENED_AT + PAUSE + SECOND) is None


def test_a_trial_that_succeeds_closes_it_and_forgets_the_failures():
    trial = enter(opened(), OPENED_AT + PAUSE)
    assert trial is not None
    assert succeeded(trial) == CLOSED


def test_a_trial_that_fails_opens_it_for_another_pause():
    later = OPENED_AT + PAUSE
    trial = enter(opened(), later)
    assert trial is not None
    again = failed(trial, later + SECOND)
    assert again.state is BreakerState.OPEN
    assert enter(again, later + PAUSE) is None
    assert enter(again, later + SECOND + PAUSE) is not None


def test_a_trial_that_never_reports_does_not_block_the_next_one():
    later = OPENED_AT + PAUSE
    trial = enter(opened(), later)
    assert trial is not None
    assert enter(trial, later + PAUSE) is not None


def test_calls_from_before_it_opened_change_nothing():
    assert failed(opened(), OPENED_AT + 10 * SECOND) == opened()
    assert succeeded(opened()) == opened()
