"""What should each feature of a sentence weigh in a session's summary?

    python -m benchmarks.fit_summaries --work AGENTWORK --outcomes OUTCOMES

Key facts of sessions as summaries tell them, in one process, without a server: with the weights that ship, and fitted
with each session, then each project, left out. Prints the weights of a fit to all, for `sentence_weights.py`. The model
is logistic ("this sentence says a key fact"), drawn towards `BY_HAND`. Data: see `benchmarks/outcomes.py`; nothing is
random.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.outcomes import Facts, Said, facts_of, said_of, summed_up
from benchmarks.relevance import events_of
from ingest.ids import DocumentId
from projections.compression.compression import compress
from projections.condensing import salience
from projections.condensing.sentence_weights import WEIGHTS
from projections.condensing.sessions import digest, tellable
from projections.documents.observations import Observation

Floats = NDArray[np.float64]

BY_HAND = {
    "constant": -2.0, "opening": 1.0, "near the end": 0.8, "near the last message": 0.8, "changed something": 0.8,
    "done": 0.8, "refused": 0.6, "reason": 0.6, "left": 0.6, "found": 0.4, "amount": 0.4, "wanted": 0.3,
    "offered": -1.2, "assistant offered": -0.5, "question": -1.0, "greeted": -0.8, "data": -0.7, "short": -0.7,
    "result": -0.6, "planned": -0.5, "failed at once": -0.3,
}  # fmt: skip
RECORDED_AT = datetime(2026, 1, 1, tzinfo=UTC)
HELD = {"decided": 1.0, "summed up later": -3.0, "closing": 1.5}
"""What these sessions have too little of."""
RIDGE = 300.0
"""Of 30 to 1,000 the best with sessions left out; with projects left out more is better."""
STEPS = 25


class Session(NamedTuple):
    """A session's observations and facts."""

    project: str
    name: str
    observations: list[Observation]
    facts: Facts


def sessions_of(work: Path, outcomes: Path) -> list[Session]:
    """Every session of the data, its observations as the projection makes them."""
    found: list[Session] = []
    for project, wanted in zip(json.loads(work.read_bytes()), json.loads(outcomes.read_bytes()), strict=True):
        of_session: defaultdict[str, list[Observation]] = defaultdict(list)
        for place, event in enumerate(events_of(project, "fit"), start=1):
            short = compress(event["kind"], event["content"])
            of_session[event["session_id"]].append(
                Observation(
                    id=DocumentId(f"obs_{place:026d}"), event_id=event["event_id"], tenant="default",
                    session_id=event["session_id"], session=DocumentId(f"ses_{event['session_id']}"),
                    agent_id=event["agent_id"], kind=short.type, content=event["content"], title=short.title,
                    narrative=short.narrative, concepts=short.concepts, files=short.files, importance=short.importance,
                    occurred_at=datetime.fromisoformat(event["occurred_at"]), recorded_at=RECORDED_AT,
                    position=f"{place}-0", role=short.role,
                )
            )  # fmt: skip
        found += [
            Session(project["sample_id"], one["session"], of_session[f"fit:{one['session']}"], facts_of(one))
            for one in wanted["sessions"]
        ]
    return found


class Fit:
    """Sentences of all sessions by feature, and which of them say a fact."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = sessions
        told = [tellable(salience.sentences_of(one.observations)) for one in sessions]
        self._names = sorted({name for one in told for sentence in one for name in sentence.features} | {*BY_HAND})
        self._columns = [
            np.array([[sentence.features.get(name, 0.0) for name in self._names] for sentence in one]) for one in told
        ]
        self._says = [
            np.array([float(any(said_of(sentence.text, one.facts).hits)) for sentence in sentences])
            for one, sentences in zip(sessions, told, strict=True)
        ]

    def weights(self, places: Sequence[int]) -> dict[str, float]:
        """Fitted to these sessions, by Newton's method."""
        columns = np.concatenate([self._columns[place] for place in places])
        says = np.concatenate([self._says[place] for place in places])
        prior = np.array([BY_HAND.get(name, 0.0) for name in self._names])
        pull = RIDGE * columns.var(axis=0) + 1e-9
        found: Floats = prior.copy()
        for _ in range(STEPS):
            likely = 1 / (1 + np.exp(-np.clip(columns @ found, -30, 30)))
            slope: Floats = columns.T @ (likely - says) + pull * (found - prior)
            curvature: Floats = (columns * (likely * (1 - likely))[:, None]).T @ columns + np.diag(pull)
            found = found - np.linalg.solve(curvature, slope)
        fitted: list[float] = found.tolist()
        return {**{name: round(value, 2) for name, value in zip(self._names, fitted, strict=True)}, **HELD}

    def left_out(self, group: Callable[[Session], Hashable]) -> list[Said]:
        """What each session's summary says, with weights fitted to the sessions of other groups."""
        found: list[Said] = []
        fitted: dict[Hashable, dict[str, float]] = {}
        for one in self._sessions:
            key = group(one)
            if key not in fitted:
                fitted[key] = self.weights([n for n, other in enumerate(self._sessions) if group(other) != key])
            found.append(summary_said(one, fitted[key]))
        return found


def summary_said(one: Session, weights: Mapping[str, float]) -> Said:
    """What the rules' summary of a session says with these weights."""
    before = dict(WEIGHTS)
    try:
        WEIGHTS.clear()
        WEIGHTS.update(weights)
        made = digest(one.observations)
    finally:
        WEIGHTS.clear()
        WEIGHTS.update(before)
    assert made is not None  # a session has observations
    return said_of(" ".join([made.title, made.narrative, *made.decisions, *made.remaining]), one.facts)


def main() -> None:
    """Print figures and weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--outcomes", type=Path, required=True)
    options = parser.parse_args()
    sessions = sessions_of(options.work, options.outcomes)
    fit = Fit(sessions)
    rows = {
        "set by hand": [summary_said(one, {**BY_HAND, **HELD}) for one in sessions],
        "in use": [summary_said(one, dict(WEIGHTS)) for one in sessions],
        "each session left out": fit.left_out(lambda one: (one.project, one.name)),
        "each project left out": fit.left_out(lambda one: one.project),
    }
    for name, said in rows.items():
        print(f"{name:>22}: {json.dumps(summed_up(said))}")
    fitted = fit.weights(range(len(sessions)))
    print(json.dumps({name: fitted[name] for name in sorted(fitted, key=lambda name: -abs(fitted[name]))}, indent=4))


if __name__ == "__main__":
    main()
