"""Makes `projections/search/weights.toml` from questions with known evidence.

Pools of candidates are made in one process by the code that a server runs: turns become observations, their index
entries and the default model's vectors go into an `IndexReplica` per conversation or project, `search.pool_of` picks
the candidates, and `search.results_of` computes their features. Recall agrees with HTTP within half a point (ids, which
break ties, are different).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figures, benchmark
from benchmarks.relevance import APART, TENANT, History, Question, answerable, histories, observed
from ingest.ids import DocumentId
from ingest.platform.clock import to_ms
from projections.embedding.factory import build_embedder
from projections.index.embedded import EmbeddedCandidates
from projections.index.replica import IndexReplica
from projections.search import search
from projections.search.candidates import Meaning, corrected
from projections.search.question import UNCERTAIN_FROM, Filter
from projections.search.question import Question as Asked
from projections.search.ranking import ANSWERABLE, FEATURES, KIND, SHARE, Weights, shipped_weights
from projections.store.feed import Put
from projections.text.dates import named_time
from projections.text.terms import terms
from projections.vectors.columns import Column
from projections.vectors.embedder import Embedder, chunk
from projections.vectors.static import table_of

Floats = NDArray[np.float64]
NOT_HISTORIES = ("changes", "wishes")
"""Folders of OWN with other data."""
RUN = "offline"
OWN = Path(__file__).parent / "data"
KINDS = 2
RIDGE, RIDGE_OF_KIND = 0.015, 0.03
"""On weights of standardized features, and of what tells the kind. With .006 and .01, recall@5 of a set that was left
out is 61.4 on average instead of 64.8, and that of questions that were left out 67.8 instead of 67.9. One kind: 64.5
and 65.7."""
APART_EACH = 3
"""Of the questions, one of so many is fitted a second time, with candidates out of their sessions, and not measured."""
AGAINST, EACH = 90, 10
"""Candidates that a fit compares the evidence with: the best by words and meaning, and every tenth of the rest."""
BOUNDS = {"tool": (None, 0.0), "new": (0.0, None), "new_present": (0.0, None)}
"""Lowest and highest weights: what a tool printed never ranks higher for that, and of two statements that match alike
the newer one is first unless the question is about the past."""
FOLDS = 4
SEEDS = 4
"""Starts of the fit to everything; the best one is the start of the others."""
CUTS = (1, 5, 10)
RIDGE_OF_CONFIDENCE = 1e-4
OWN_SETS = frozenset(folder.name for folder in OWN.iterdir())
HARD_SETS, HARD_SET = {"life": 0.15}, 0.05
"""What sets count for whether a question has an answer, other than 1: their unanswered questions are about things that
were mentioned. Alike, they would cost agent work .02 of its AUC; without them, theirs falls from .8 to .6."""
BY_COSINE = (12.0, -5.9)
"""As in projections/kernel/native/src/results.cpp: of the log odds that a question has an answer."""
ENGLISH, OTHER = 0, 2
"""Languages of results, in the order of `native.Results.language`."""
JUDGED = 10
"""First results of a question whose confidence is fitted."""


@dataclass
class _Case:
    """One question: its pool's features and which of it is evidence."""

    question: Question
    turns: list[str]
    features: Floats
    """(n, len(FEATURES))."""
    kind: Floats
    """(len(KIND),)."""
    lift: Floats
    inputs: Floats
    """What confidence is made of."""
    in_english: bool
    """Whether words without a static vector are names: the question and its first results are in English."""
    is_unknown: bool
    """Whether the answer has no confidence: the question is in English, and the first results are not."""
    apart: bool
    fold: int = 0

    @property
    def evidence(self) -> NDArray[np.bool_]:
        """(n,), which of the pool answers."""
        return np.array([turn in self.question.evidence | self.question.also for turn in self.turns], np.bool_)

    def final(self, weights: Weights) -> Floats:
        """(n,), the scores with these weights."""
        first = _probability(self.kind @ weights.kind)
        mixed = first * weights.features[0] + (1 - first) * weights.features[1]
        return self.features @ mixed + self.lift

    def ranked(self, scores: Floats) -> list[str]:
        """The turns, best first."""
        return [self.turns[place] for place in np.argsort(-np.round(scores, 6), kind="stable")]


def _cases(history: History, embedder: Embedder, cache: Path) -> Iterator[_Case]:
    turns = {event["metadata"]["turn"]: observed(event, number) for number, event in enumerate(history.events, 1)}
    asked = history.questions
    texts = [chunk(turn.searchable_text()) for turn in turns.values()]
    vectors = _vectors([*(part for parts in texts for part in parts), *(it.text for it in asked)], embedder, cache)
    index = IndexReplica(embedder.dimensions, embedder.model, table_of(embedder))
    index.apply(0, [Put(turn.index_entry()) for turn in turns.values()])
    first = 0
    for turn, parts in zip(turns.values(), texts, strict=True):
        if parts:
            index.vectors.put(index.ordinal_of[turn.id], vectors[first : first + len(parts)].astype(np.float16))
        first += len(parts)
    turn_of = {turn.id: name for name, turn in turns.items()}
    for number, (it, vector) in enumerate(zip(asked, vectors[first:], strict=True)):
        if case := _case(index, it, vector, turn_of):
            yield case
        if number % APART_EACH == 0 and (case := _case(index, it, vector, turn_of, apart=True)):
            yield case


def _case(
    index: IndexReplica,
    it: Question,
    vector: NDArray[np.float32],
    turn_of: Mapping[DocumentId, str],
    *,
    apart: bool = False,
) -> _Case | None:
    """As `search.fused` does it. With `apart` a quarter of the candidates, always the same, are out of their sessions,
    as memories are."""
    to = datetime.fromisoformat(it.to) if it.to else None
    named = None if to else named_time(it.text, datetime(2026, 1, 1, tzinfo=UTC), UTC)
    words = terms(it.text)
    asked = Asked(text=it.text, vector=vector, model=index.model, named=named, words=words)
    candidates = EmbeddedCandidates(index, Filter(tenant=TENANT, now_ms=0, to_ms=to and to_ms(to)))
    distinct = list(dict.fromkeys(words))
    frequencies, _ = candidates.frequencies(distinct)
    unsaid = [term for term, documents_saying in zip(distinct, frequencies, strict=True) if not documents_saying]
    query_terms = corrected(candidates, words, unsaid)
    assert candidates.table is not None
    meaning = Meaning(vector, candidates.table.embed_query(query_terms))
    documents = search.pool_of(candidates, asked, query_terms, meaning)
    if not len(documents):
        return None
    if apart:
        rows = candidates.rows = copy(index)
        rows.episode = Column.of(np.where(index.id_key.values % 4 == 0, np.int32(-1), index.episode.values))
    results = search.results_of(candidates, asked, query_terms, meaning, documents)
    criteria = search.criteria_of(candidates, asked, query_terms, meaning)
    in_english = results.language == ENGLISH and criteria.english
    is_unknown = results.language == OTHER and criteria.surely_english
    ordinals: list[int] = documents.tolist()
    names = [turn_of[DocumentId(index.ids[ordinal])] for ordinal in ordinals]
    features, kind = results.features.T, results.kind[0]
    return _Case(it, names, features, kind, results.whole, results.evidence, in_english, is_unknown, apart)


def _vectors(texts: list[str], embedder: Embedder, cache: Path) -> NDArray[np.float32]:
    """(n, dimensions), cached by model and texts."""
    path = cache / f"{hashlib.sha256(json.dumps([embedder.model, *texts]).encode()).hexdigest()[:32]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        lengths = np.array([len(text) for text in texts])
        order = np.argsort(lengths, kind="stable")  # texts of one length: no padding
        rows = np.zeros((len(texts), embedder.dimensions), np.float16)
        for start in range(0, len(texts), 64):
            part: list[int] = order[start : start + 64].tolist()
            rows[part] = embedder.embed([texts[number] for number in part])
        np.save(path, rows)
    return np.load(path).astype(np.float32)


class _Rows:
    """The candidates of some questions, one after the other, with standardized features."""

    def __init__(self, sets: Mapping[str, Sequence[_Case]]) -> None:
        cases = [case for of_set in sets.values() for case in of_set]
        share = [1 / np.sqrt(len(of_set)) for of_set in sets.values() for _ in of_set]
        self.scale = np.concatenate([case.features for case in cases]).std(axis=0)
        self.scale[self.scale < 1e-6] = 1.0
        kept = [_compared(case) for case in cases]
        self.features = np.concatenate(
            [case.features[rows] / self.scale for case, rows in zip(cases, kept, strict=True)]
        )
        kind = np.stack([case.kind for case in cases])
        self.kind_scale = np.maximum(kind.std(axis=0), 1e-6)
        self.kind_mean = np.where(np.array(KIND) == "always", 0.0, kind.mean(axis=0))
        self.kind_scale[KIND.index("always")] = 1.0
        self.kind = (kind - self.kind_mean) / self.kind_scale
        targets = [case.evidence[rows] for case, rows in zip(cases, kept, strict=True)]
        self.target = np.concatenate([target / target.sum() for target in targets])
        self.case = np.repeat(np.arange(len(cases)), [len(rows) for rows in kept])
        self.starts = np.searchsorted(self.case, np.arange(len(cases)))
        self.share = (np.array(share) / sum(share))[self.case]

    def loss(self, flat: Floats) -> tuple[float, Floats]:
        """Mean negative log probability of the evidence against the rest of its pool, and ridge; its gradient."""
        weights, of_kind = flat[: KINDS * len(FEATURES)].reshape(KINDS, -1), flat[KINDS * len(FEATURES) :]
        first = 1 / (1 + np.exp(-self.kind @ of_kind))
        mix = np.stack([first, 1 - first], axis=1)
        by_kind = self.features @ weights.T
        exponents = (by_kind * mix[self.case]).sum(axis=1)
        shifted = np.exp(exponents - np.maximum.reduceat(exponents, self.starts)[self.case])
        probability = shifted / np.add.reduceat(shifted, self.starts)[self.case]
        error = self.share * (probability - self.target)
        slope = np.stack([self.features.T @ (error * mix[self.case, kind]) for kind in range(KINDS)])
        between = np.add.reduceat(error * (by_kind[:, 0] - by_kind[:, 1]), self.starts)
        of_first = self.kind.T @ (between * first * (1 - first))
        mean, apart = weights.mean(axis=0), weights - weights.mean(axis=0)
        ridge = RIDGE * (np.square(mean).sum() + np.square(apart).sum()) + RIDGE_OF_KIND * np.square(of_kind).sum()
        total = ridge - float((self.share * self.target * np.log(probability + 1e-12)).sum())
        slope += 2 * RIDGE * (mean / KINDS + apart)
        return total, np.concatenate([slope.ravel(), of_first + 2 * RIDGE_OF_KIND * of_kind])


def _compared(case: _Case) -> NDArray[np.int64]:
    by = case.features[:, [FEATURES.index("bm25"), FEATURES.index("relative_cosine"), FEATURES.index("episode")]]
    order = np.argsort(-(by @ [1.0, 1.0, 0.5]), kind="stable")
    return np.unique(np.concatenate([order[:AGAINST], order[AGAINST::EACH], np.flatnonzero(case.evidence)]))


def _fit(sets: Mapping[str, Sequence[_Case]], seeds: Sequence[int] = range(SEEDS)) -> tuple[Weights, int]:
    """Listwise logistic regressions, mixed; the best of some starts, and its seed. The questions of a set of n weigh
    1 / sqrt(n) each."""
    rows = _Rows({name: [case for case in cases if case.evidence.any()] for name, cases in sets.items()})
    fits: list[tuple[float, int, Floats]] = []
    for seed in seeds:
        dice = np.random.default_rng(seed)  # two kinds that start alike would stay alike
        start = np.concatenate([dice.normal(0, 0.05, KINDS * len(FEATURES)), dice.normal(0, 0.3, len(KIND))])
        flat = _minimum(rows.loss, start, BOUNDS)
        fits.append((rows.loss(flat)[0], seed, flat))
    _, seed, flat = min(fits)
    features = flat[: KINDS * len(FEATURES)].reshape(KINDS, -1) / rows.scale
    kind = flat[KINDS * len(FEATURES) :] / rows.kind_scale
    kind[KIND.index("always")] -= kind @ rows.kind_mean
    return Weights(features, kind, np.zeros(len(ANSWERABLE)), np.zeros(len(SHARE))), seed


def _minimum(
    loss: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounded: Mapping[str, tuple[float | None, float | None]] | None = None,
) -> Floats:
    from scipy.optimize import minimize  # pyright: ignore[reportMissingTypeStubs,reportUnknownVariableType]

    of_features = [(bounded or {}).get(name, (None, None)) for name in FEATURES * KINDS]
    bounds = (of_features + [(None, None)] * len(start))[: len(start)]
    result = cast(Any, minimize)(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
    return np.asarray(result.x, np.float64)


def _with_confidence(weights: Weights, sets: Mapping[str, Sequence[_Case]]) -> Weights:
    """A logistic regression of whether a familiar question has an answer, over its first results, and one of which of
    the first results it is. Sets with questions that were never answered weigh as HARD_SETS says, and both kinds
    alike."""
    inputs, has_answer, shares = list[Floats](), list[bool](), list[float]()
    of_results, answers, by_set = list[Floats](), list[Floats](), list[Floats]()
    for name, cases in sets.items():
        kinds = [bool(case.question.evidence) for case in cases]
        for case, kind in zip(cases, kinds, strict=True):
            final = case.final(weights)
            first = np.argsort(-final, kind="stable")[:JUDGED]
            if not all(kinds) and case.in_english and not case.apart:
                inputs.append(case.inputs[first[0]])
                has_answer.append(kind)
                shares.append(HARD_SETS.get(name, HARD_SET if name in OWN_SETS else 1.0) / kinds.count(kind))
            if kind and not case.apart:
                relative = final - np.logaddexp.reduce(final)
                of_results.append(np.column_stack([relative[first], np.ones(len(first))]))
                answers.append(case.evidence[first].astype(np.float64))
                by_set.append(np.full(len(first), 1 / np.sqrt(len(cases))))
    answerable = _logistic(np.stack(inputs), np.array(has_answer, np.float64), np.array(shares))
    share = _logistic(np.concatenate(of_results), np.concatenate(answers), np.concatenate(by_set))
    return weights._replace(answerable=answerable, share=share)


def _logistic(columns: Floats, answer: Floats, share: Floats) -> Floats:
    scale: Floats = np.maximum(columns.std(axis=0), 1e-6)
    scale[-1] = 1.0
    share, scaled = share / share.sum(), np.asarray(columns / scale, np.float64)

    def loss(flat: Floats) -> tuple[float, Floats]:
        odds = np.asarray(scaled @ flat, np.float64)
        losses: Floats = np.logaddexp(0.0, odds) - answer * odds
        total: float = (share * losses).sum().item()
        error: Floats = share * (1 / (1 + np.exp(-odds)) - answer)
        slope = np.asarray(error @ scaled, np.float64)
        return total + RIDGE_OF_CONFIDENCE * float(np.square(flat).sum()), slope + 2 * RIDGE_OF_CONFIDENCE * flat

    return _minimum(loss, np.zeros(len(scale))) / scale


def _recall(cases: Sequence[_Case], score: Callable[[_Case], Floats]) -> str:
    """R@1 / @5 / @10 in percent, and the mean reciprocal rank."""
    counted = [case for case in cases if case.question in answerable([case.question])]
    shares, ranks = list[list[float]](), list[float]()
    for case in (case for case in counted if case.question.category not in APART):
        ranked, answers = case.ranked(score(case)), case.question.evidence | case.question.also
        shares.append([case.question.share(ranked[:cut]) for cut in CUTS])
        ranks.append(next((1 / rank for rank, turn in enumerate(ranked, 1) if turn in answers), 0.0))
    if not shares:
        return "-"
    return " / ".join(f"{100 * share:.1f}" for share in np.mean(shares, axis=0)) + f", MRR {np.mean(ranks):.3f}"


def _calibration(cases: Sequence[_Case], weights: Callable[[_Case], Weights]) -> Figures:
    """How well confidence separates questions with and without an answer (AUC), and agrees with how often a result
    answers (expected calibration error over ten bins, of the first JUDGED results)."""
    judged = list[tuple[_Case, float, Floats, NDArray[np.bool_]]]()
    for case in (case for case in cases if not case.is_unknown):
        final = case.final(weights(case))
        first = np.argsort(-np.round(final, 6), kind="stable")[:JUDGED]
        sure = _answerable(case, weights(case))
        answers = sure * _share(final, weights(case))
        judged.append((case, float(sure[first[0]]), answers[first], case.evidence[first]))
    with_answer = [sure for case, sure, *_ in judged if case.question.evidence]
    without = [sure for case, sure, *_ in judged if not case.question.evidence]
    sure = np.concatenate([of_results for _, _, of_results, _ in judged])
    answers = np.concatenate([evidence for *_, evidence in judged])
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [abs(float(sure[bins == at].mean() - answers[bins == at].mean())) * (bins == at).mean() for at in set(bins)]
    figures: Figures = {
        "calibration error": round(float(sum(gaps)), 3),
        "answerable, called probably not recorded, %": _below(with_answer),
        "without confidence, %": round(100 * float(np.mean([case.is_unknown for case in cases])), 1),
    }
    if without:
        above = [(a > b) + 0.5 * (a == b) for a in with_answer for b in without]
        figures["AUC"] = round(float(np.mean(above)), 3)
        figures["never said, called so, %"] = _below(without)
    return figures


def _answerable(case: _Case, weights: Weights) -> Floats:
    """Return (n,), how likely the question has an answer, as far as each document tells: as `search` computes it, but
    for questions without a static vector."""
    if case.in_english:
        return _probability(case.inputs @ weights.answerable)
    slope, constant = BY_COSINE
    return _probability(slope * case.inputs[:, ANSWERABLE.index("best_cosine")] + constant)


def _share(final: Floats, weights: Weights) -> Floats:
    """Return (n,), how likely each document with these scores is the answer, if there is one."""
    return _probability(weights.share[0] * (final - np.logaddexp.reduce(final)) + weights.share[1])


def _probability(log_odds: Any) -> Any:
    return 1 / (1 + np.exp(-log_odds))


def _below(confidences: Sequence[float]) -> float:
    return round(100 * float(np.mean(np.array(confidences) < UNCERTAIN_FROM)), 1)


def _stale_first(cases: Sequence[_Case], score: Callable[[_Case], Floats]) -> float | None:
    """The share of questions, of those with a replaced value, that get it before the present one, in percent."""
    firsts: list[bool] = []
    for case in (case for case in cases if case.question.stale):
        answers = case.question.evidence | case.question.also
        in_order = [turn in answers for turn in case.ranked(score(case)) if turn in answers | case.question.stale]
        firsts.append(not (in_order and in_order[0]))
    return round(100 * float(np.mean(firsts)), 1) if firsts else None


def _toml(weights: Weights, made_by: str) -> str:
    """The file that `shipped_weights` reads."""

    def table(name: str, names: Sequence[str], values: Sequence[Any]) -> str:
        return f"[{name}]\n" + "\n".join(f"{key} = {value}" for key, value in zip(names, values, strict=True)) + "\n"

    both = [f"[{first:.4f}, {second:.4f}]" for first, second in weights.features.T]
    return "\n".join([
        f"# Made by `{made_by}`.",
        "# Each feature: its weight in the first kind of history, and in the second.",
        table("features", FEATURES, both),
        "# Log odds that a question is about the first kind.",
        table("kind", KIND, [f"{value:.4f}" for value in weights.kind]),
        "# Log odds that a question has an answer, by what speaks for a result.",
        table("answerable", ANSWERABLE, [f"{value:.4f}" for value in weights.answerable]),
        "# Log odds that a result is the answer, if there is one.",
        table("share", SHARE, [f"{value:.4f}" for value in weights.share]),
    ])  # fmt: skip


@benchmark(needs_data=True, long=True)
def fit_ranking(
    data: Mapping[str, Path],
    only_measure: tuple[str, ...] = ("locomo", "realtalk", "memdaily"),
    vectors: str = ".bench/vectors",
    write: str = "",
) -> Figures:
    """What should each feature of a candidate weigh, and what does it bring: recall@1 / @5 / @10?

    Two listwise logistic regressions and the odds between them, over the features of `ranking.score`, and a logistic
    one for confidence. Each question is judged by weights that were fitted without a quarter of the conversations or,
    where there are few of those, of the questions, its own among them. The histories of
    `benchmarks/data/` are always among the data. `--only-measure` names data that is not fitted to, because its license
    does not allow it. `--write FILE` writes the weights. A set NAME-outcomes has `unanswerable` questions for those of
    NAME. Needs no server; nothing is random. The first run makes the vectors, which the folder `--vectors` keeps.
    """
    embedder = build_embedder()
    own = (folder for folder in sorted(OWN.iterdir()) if folder.name not in NOT_HISTORIES)
    paths = {**{folder.name: folder for folder in own}, **data}
    outcomes = {name.removesuffix(OUTCOMES): paths.pop(name) for name in list(paths) if name.endswith(OUTCOMES)}
    sets: dict[str, list[_Case]] = {}
    for name, path in paths.items():
        sets[name] = list[_Case]()
        for group, history in enumerate(_with_unanswerable(histories(path, RUN), outcomes.get(name))):
            cases = list(_cases(history, embedder, Path(vectors)))
            for case in cases:
                case.fold = group % FOLDS
            sets[name] += cases
        if len({case.fold for case in sets[name]}) < FOLDS:
            for number, case in enumerate(sets[name]):
                case.fold = number // 8 % FOLDS
    fitted = {name: cases for name, cases in sets.items() if name not in only_measure}

    def without(fold: int) -> Weights:
        kept = {name: [case for case in cases if case.fold != fold] for name, cases in fitted.items()}
        return _with_confidence(_fit(kept, [seed])[0], kept)

    weights, seed = _fit(fitted)
    everything = _with_confidence(weights, fitted)
    folds = [without(fold) for fold in range(FOLDS)]
    if write:
        Path(write).write_text(_toml(everything, "python -m benchmarks fit_ranking"))
    apart = {name: _fit({other: fitted[other] for other in fitted if other != name}, [seed])[0] for name in fitted}
    sets = {name: [case for case in cases if not case.apart] for name, cases in sets.items()}
    return {
        name: _figures_of(cases, (lambda case: folds[case.fold]) if name in fitted else (lambda case: everything))
        | {
            "fitted": _recall(cases, lambda case: case.final(everything)),
            "fitted without its set": _recall(cases, partial(_Case.final, weights=apart.get(name, everything))),
        }
        for name, cases in sets.items()
    }


OUTCOMES = "-outcomes"


def _with_unanswerable(read: Sequence[History], path: Path | None) -> Iterator[History]:
    groups: list[dict[str, Any]] = json.loads(path.read_bytes()) if path else []
    more = {group["sample_id"]: group["unanswerable"] for group in groups}
    for history in read:
        never = [Question(history.name, text, "never_said", frozenset()) for text in more.get(history.name, ())]
        yield history._replace(questions=[*history.questions, *never])


def _figures_of(cases: Sequence[_Case], weights: Callable[[_Case], Weights]) -> Figures:
    legs = [FEATURES.index(leg) for leg in ("bm25", "relative_cosine")]
    return {
        "bm25": _recall(cases, lambda case: case.features[:, legs[0]]),
        "cosine": _recall(cases, lambda case: case.features[:, legs[1]]),
        "sum": _recall(cases, lambda case: case.features[:, legs].sum(axis=1)),
        "as shipped": _recall(cases, lambda case: case.final(shipped_weights())),
        "fitted without it": _recall(cases, lambda case: case.final(weights(case))),
        "stale first, %": _stale_first(cases, lambda case: case.final(weights(case))),
        **_calibration(cases, weights),
    }
