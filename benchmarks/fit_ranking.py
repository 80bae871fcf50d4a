"""Fits the lifts of `projections/search/cues.py` to questions with known evidence.

Pools of candidates are made in one process by the code that a server runs: turns become observations, their index
entries and the default model's vectors go into an `IndexReplica` per conversation or project, and `search.pool_of`
picks the candidates. Recall agrees with HTTP within half a point (ids, which break ties, are different).
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figures, benchmark
from benchmarks.relevance import APART, events_of, questions
from ingest.ids import DocumentId
from projections.documents.observations import Observation
from projections.embedding.factory import build_embedder
from projections.search import cues
from projections.search.embedded import EmbeddedCandidates
from projections.search.question import Filter, Question
from projections.search.ranking import AUTHOR_LIFT, Pool, score
from projections.search.replica import IndexReplica
from projections.search.search import pool_of
from projections.search.terms import terms
from projections.store.feed import Put
from projections.vectors.embedder import Embedder, chunk
from projections.vectors.static import table_of

Floats = NDArray[np.float64]
TENANT, RUN = "benchmark", "offline"
LIFTS = ("SPEAKER_LIFT", "NAMED_SPEAKER_LIFT", "TIME_LIFT", "SPREAD")
RIDGE = 0.003  # pulls the lifts to their current values: with so few questions, less of it would fit the questions
CUTS = (5, 10)


@dataclass(frozen=True)
class _Case:
    """One question: the features of its candidates, which of them are evidence, and how many turns are evidence in
    all."""

    group: str
    features: Floats
    evidence: NDArray[np.bool_]
    all_evidence: int

    def recall(self, weights: Floats, cut: int) -> float:
        """The share of the evidence among the first `cut`."""
        best = np.argsort(-np.round(self.features @ weights, 6), kind="stable")[:cut]
        return float(self.evidence[best].sum()) / self.all_evidence


def _cases(group: dict[str, Any], embedder: Embedder, cache: Path) -> Iterator[_Case]:
    turns = dict(_observations(group))
    asked = [question for question in questions(group) if question.category not in APART]
    texts = [chunk(turn.searchable_text()) for turn in turns.values()]
    vectors = _vectors([*(part for parts in texts for part in parts), *(it.text for it in asked)], embedder, cache)
    with tempfile.TemporaryDirectory() as folder:
        index = IndexReplica(Path(folder), embedder.dimensions, embedder.model, table_of(embedder))
        index.apply(0, [Put(turn.index_entry()) for turn in turns.values()])
        index.commit()
        first = 0
        for turn, parts in zip(turns.values(), texts, strict=True):
            if parts:
                index.vectors.put(index.ordinal_of[turn.id], vectors[first : first + len(parts)].astype(np.float16))
            first += len(parts)
        turn_of = {turn.id: name for name, turn in turns.items()}
        for it, vector in zip(asked, vectors[first:], strict=True):
            question, query_terms = Question(text=it.text, vector=vector, model=embedder.model), terms(it.text)
            documents, pool = pool_of(EmbeddedCandidates(index, Filter(tenant=TENANT), 0), question, query_terms)
            ordinals: list[int] = documents.tolist()
            evidence = np.array([turn_of[DocumentId(index.ids[at])] in it.evidence for at in ordinals], np.bool_)
            features = _features(query_terms, pool, cues.cues_of(it.text))
            yield _Case(group["sample_id"], features, evidence, len(it.evidence))


def _observations(group: dict[str, Any]) -> Iterator[tuple[str, Observation]]:
    """Turn ids and observations, made of the events that `relevance` writes."""
    for place, event in enumerate(events_of(group, RUN), start=1):
        digest = hashlib.sha256(event["event_id"].encode()).hexdigest()
        yield (
            event["metadata"]["turn"],
            Observation(
                id=DocumentId(f"obs_{digest[:26]}"),
                event_id=event["event_id"],
                tenant=TENANT,
                project=event["project"],
                session_id=event["session_id"],
                session=DocumentId(f"ses_{event['session_id']}"),
                agent_id=event["agent_id"],
                content=event["content"],
                occurred_at=datetime.fromisoformat(event["occurred_at"]),
                recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
                position=f"0:{place}-0",
            ),
        )


def _vectors(texts: list[str], embedder: Embedder, cache: Path) -> NDArray[np.float32]:
    """(n, dimensions), cached by model and texts."""
    path = cache / f"{hashlib.sha256(json.dumps([embedder.model, *texts]).encode()).hexdigest()[:32]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        parts = [embedder.embed(texts[start : start + 64]) for start in range(0, len(texts), 64)]
        np.save(path, np.concatenate(parts).astype(np.float16))
    return np.load(path).astype(np.float32)


def _features(query_terms: list[str], pool: Pool, of_query: cues.Cues) -> Floats:
    """(n, 1 + lifts): the score without cues, and what each lift is multiplied with."""
    scores = score(query_terms, pool, cues=of_query)
    speaker = cues.having(pool.terms, cues.FIRST_PERSON)
    columns = [
        scores.final - scores.speaker - scores.time - scores.spread,
        speaker * of_query.first_person,
        speaker * scores.author / AUTHOR_LIFT,
        scores.time / cues.TIME_LIFT,
        scores.spread / cues.SPREAD,
    ]
    return np.stack(columns, axis=1)


def _loss(weights: Floats, cases: Sequence[tuple[_Case, float]], prior: Floats) -> tuple[float, Floats]:
    """Mean negative log probability of the evidence (listwise: against the rest of its pool) and ridge; its
    gradient."""
    total, slope = RIDGE * float(np.square(weights - prior).sum()), 2 * RIDGE * (weights - prior)
    for case, share in cases:
        exponents = case.features @ weights
        shifted = np.exp(exponents - exponents.max())
        probability = shifted / shifted.sum()
        target = case.evidence / case.evidence.sum()
        total -= share * float(target @ np.log(probability + 1e-12))
        slope = slope + share * (case.features.T @ (probability - target))
    return total, slope


def _fit(files: Sequence[Sequence[_Case]], without: str, prior: Floats) -> Floats:
    """Weights from all groups but one. Groups of a file weigh the same, and so do files."""
    from scipy.optimize import minimize  # pyright: ignore[reportMissingTypeStubs,reportUnknownVariableType]

    cases: list[tuple[_Case, float]] = []
    for file in files:
        used = [case for case in file if case.group != without and case.evidence.any()]
        groups = [case.group for case in used]
        cases += [(case, 1 / groups.count(case.group) / len(set(groups))) for case in used]
    return np.asarray(cast(Any, minimize)(_loss, prior, (cases, prior), "L-BFGS-B", jac=True).x, np.float64)


@benchmark(needs_data=True, long=True)
def fit_ranking(
    data: Mapping[str, Path], only_measure: tuple[str, ...] = ("locomo",), vectors: str = ".bench/vectors"
) -> Figures:
    """How much should the cues of a question lift, and what does it bring: recall@5 / @10?

    A softmax regression over today's score without cues and one column per cue. Each conversation or project is
    judged by lifts that were fitted without it. `--only-measure` names data that is not fitted to, because its
    license does not allow it. Needs no server; nothing is random. The first run makes the vectors, which the folder
    `--vectors` keeps.
    """
    embedder = build_embedder()
    files: dict[str, list[_Case]] = {}
    for name, path in data.items():
        groups: list[dict[str, Any]] = json.loads(path.read_bytes())
        files[name] = [case for group in groups for case in _cases(group, embedder, Path(vectors))]
    fitted = [cases for name, cases in files.items() if name not in only_measure]
    names = dict.fromkeys(case.group for cases in files.values() for case in cases)
    none = np.array([1.0, *(0.0 for _ in LIFTS)])
    today = np.array([1.0, *(getattr(cues, name) for name in LIFTS)])
    own = {group: _fit(fitted, group, today) for group in names}

    def recall(weights: Callable[[str], Floats]) -> Figures:
        shares = {
            name: np.mean([[case.recall(weights(case.group), cut) for cut in CUTS] for case in cases], axis=0)
            for name, cases in files.items()
        }
        return {name: " / ".join(f"{100 * share:.1f}" for share in both) for name, both in shares.items()}

    everything = _fit(fitted, "", today)
    return {
        "no cues": recall(lambda group: none),
        "as shipped": recall(lambda group: today),
        "fitted": recall(lambda group: own[group]),
        **{name: round(float(it), 2) for name, it in zip(LIFTS, everything[1:] / everything[0], strict=True)},
    }
