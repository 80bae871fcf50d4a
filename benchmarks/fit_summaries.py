"""Fits `projections/condensing/sentence_weights.toml`, the weights of sentences in a summary, to key facts."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figures, Row, benchmark
from benchmarks.relevance import events_of, observed
from projections.condensing import salience
from projections.condensing.salience import WEIGHTS
from projections.condensing.summaries import digest, tellable
from projections.nouns.observation import Observation

Floats = NDArray[np.float64]
Facts = list[tuple[str, list[re.Pattern[str]]]]
"""The kind of each fact, and the expressions any of which states it."""

KINDS = ("goal", "outcome", "decisions", "open")
TOKEN_CHARS = 4
BY_HAND = {
    "constant": -2.0, "opening": 1.0, "near the end": 0.8, "near the last message": 0.8, "changed something": 0.8,
    "done": 0.8, "refused": 0.6, "reason": 0.6, "left": 0.6, "found": 0.4, "amount": 0.4, "wanted": 0.3,
    "offered": -1.2, "assistant offered": -0.5, "question": -1.0, "greeted": -0.8, "data": -0.7, "short": -0.7,
    "result": -0.6, "planned": -0.5, "failed at once": -0.3,
}  # fmt: skip
HELD = {"decided": 1.0, "summed up later": -3.0, "closing": 1.5}  # not fitted: these sessions have too few of them
RIDGE = 300.0  # the best of 30 to 1,000 with sessions left out; with projects left out more is better
STEPS = 25
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "*": None, "`": None})


class _Session(NamedTuple):
    """A session's observations, as the projection makes them, and its key facts."""

    project: str
    name: str
    observations: list[Observation]
    facts: Facts


def _sessions_of(work: Path, outcomes: Path) -> list[_Session]:
    sessions: list[_Session] = []
    for project, of_project in zip(json.loads(work.read_bytes()), json.loads(outcomes.read_bytes()), strict=True):
        observations: defaultdict[str, list[Observation]] = defaultdict(list)
        for place, event in enumerate(events_of(project, "fit"), start=1):
            observations[event["session_id"]].append(observed(event, place))
        for session in of_project["sessions"]:
            facts = [
                (kind, [re.compile(text, re.IGNORECASE | re.DOTALL) for text in fact])
                for kind in KINDS
                for fact in session[kind]
            ]
            name = session["session"]
            sessions.append(_Session(project["sample_id"], name, observations[f"fit:{name}"], facts))
    return sessions


class _Stated(NamedTuple):
    """Which facts a text states, their kinds, and its length."""

    kinds: list[str]
    hits: list[bool]
    tokens: float


def _stated(text: str, facts: Facts) -> _Stated:
    """Emphasis, curly quotes and line breaks are ignored."""
    plain = " ".join(text.translate(_QUOTES).split())
    hits = [any(pattern.search(plain) for pattern in patterns) for _, patterns in facts]
    return _Stated([kind for kind, _ in facts], hits, len(plain) / TOKEN_CHARS)


def _mean(stated: Sequence[_Stated]) -> dict[str, float]:
    """The mean percentage of a text's facts, its mean tokens, and the percentage of all facts of each kind."""
    figures = {"recall": 100 * fmean(fmean(it.hits) for it in stated), "tokens": fmean(it.tokens for it in stated)}
    for kind in KINDS:
        hits = [hit for it in stated for name, hit in zip(it.kinds, it.hits, strict=True) if name == kind]
        figures[kind] = 100 * fmean(hits) if hits else 0.0
    return {name: round(value, 1) for name, value in figures.items()}


def _summary(session: _Session, weights: Mapping[str, float]) -> _Stated:
    before = dict(WEIGHTS)
    try:
        WEIGHTS.clear()
        WEIGHTS.update(weights)
        made = digest(session.observations)
    finally:
        WEIGHTS.clear()
        WEIGHTS.update(before)
    assert made is not None  # a session has observations
    return _stated(" ".join([made.title, made.narrative, *made.decisions, *made.remaining]), session.facts)


class _Fit:
    """Features of the sentences of all sessions, and which sentences state a fact."""

    def __init__(self, sessions: Sequence[_Session]) -> None:
        self._sessions = sessions
        sentences = [tellable(salience.sentences_of(session.observations)) for session in sessions]
        self._names = sorted({name for some in sentences for it in some for name in it.features} | {*BY_HAND})
        self._columns = [
            np.array([[it.features.get(name, 0.0) for name in self._names] for it in some]) for some in sentences
        ]
        self._states = [
            np.array([float(any(_stated(it.text, session.facts).hits)) for it in some])
            for session, some in zip(sessions, sentences, strict=True)
        ]

    def weights(self, places: Sequence[int]) -> dict[str, float]:
        """Fitted to these sessions by Newton's method: logistic, drawn towards `BY_HAND`."""
        columns = np.concatenate([self._columns[place] for place in places])
        states = np.concatenate([self._states[place] for place in places])
        prior = np.array([BY_HAND.get(name, 0.0) for name in self._names])
        pull = RIDGE * columns.var(axis=0) + 1e-9
        fitted: Floats = prior.copy()
        for _ in range(STEPS):
            likely = 1 / (1 + np.exp(-np.clip(columns @ fitted, -30, 30)))
            slope: Floats = columns.T @ (likely - states) + pull * (fitted - prior)
            curvature: Floats = (columns * (likely * (1 - likely))[:, None]).T @ columns + np.diag(pull)
            fitted = fitted - np.linalg.solve(curvature, slope)
        values: list[float] = fitted.tolist()
        return {**{name: round(value, 2) for name, value in zip(self._names, values, strict=True)}, **HELD}

    def left_out(self, group: Callable[[_Session], Hashable]) -> list[_Stated]:
        """What each session's summary states with weights fitted to the sessions of other groups."""
        keys = [group(session) for session in self._sessions]
        fitted = {key: self.weights([n for n, other in enumerate(keys) if other != key]) for key in dict.fromkeys(keys)}
        return [_summary(session, fitted[key]) for session, key in zip(self._sessions, keys, strict=True)]


@benchmark(
    Row("facts in summaries, shipped weights", "as shipped.recall", "%"),
    Row("tokens of a summary, shipped weights", "as shipped.tokens"),
    needs_data=True,
    long=True,
)
def fit_summaries(data: Mapping[str, Path]) -> Figures:
    """How many key facts of a session does its summary state, with which weights of sentences?

    With weights set by hand, as shipped, and fitted with each session or project left out; `weights` are fitted to
    all, for `sentence_weights.toml`. Needs `--data agentwork=PATH` (as for `relevance`) and `--data outcomes=PATH`: a
    list of `{sample_id, sessions: [{session, goal, outcome, decisions, open}]}`, each of the four a list of facts,
    and a fact a list of regular expressions any of which states it. Needs no server; nothing is random.
    """
    sessions = _sessions_of(data["agentwork"], data["outcomes"])
    fit = _Fit(sessions)
    weights = fit.weights(range(len(sessions)))
    return {
        "by hand": _mean([_summary(session, {**BY_HAND, **HELD}) for session in sessions]),
        "as shipped": _mean([_summary(session, dict(WEIGHTS)) for session in sessions]),
        "each session left out": _mean(fit.left_out(lambda session: (session.project, session.name))),
        "each project left out": _mean(fit.left_out(lambda session: session.project)),
        "weights": {name: weights[name] for name in sorted(weights, key=lambda name: -abs(weights[name]))},
    }
