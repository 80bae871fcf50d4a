"""How much should a question's cues lift? Fits `projections/search/cues.py` to questions with known evidence.

    python -m benchmarks.fit_ranking --fit AGENTWORK --fit BEAM [--measure LOCOMO] [--vectors FOLDER]

A softmax regression (listwise: evidence against the rest of its pool) over today's score without cues and one column a
cue. Each conversation or project is judged by lifts that were fitted without it; groups of a file weigh the same, and
so do files. `--measure` only measures, for data whose licence allows no more. Needs no server; nothing is random. The
first run makes the vectors (some minutes for BEAM), which `--vectors` keeps.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize  # pyright: ignore[reportMissingTypeStubs,reportUnknownVariableType]

from benchmarks.ranking_pools import AskedPool, asked_pools
from projections.embedding.factory import build_embedder
from projections.search import cues
from projections.search.ranking import AUTHOR_LIFT, Scores, score

Floats = NDArray[np.float64]
LIFTS = ("SPEAKER_LIFT", "NAMED_SPEAKER_LIFT", "TIME_LIFT", "SPREAD")
RIDGE = 0.003
"""Pulls the lifts to what they are: of so few questions, more weight on them would tell of the questions."""
CUTS = (5, 10)


def columns(asked: AskedPool, scores: Scores) -> Floats:
    """(n, 1 + lifts), the score without cues, and what each lift is multiplied with."""
    own = scores.final - scores.speaker - scores.time - scores.spread
    said = cues.having(asked.pool.terms, cues.FIRST_PERSON)
    return np.stack(
        [
            own,
            said * asked.cues.first_person,
            said * scores.author / AUTHOR_LIFT,
            scores.time / cues.TIME_LIFT,
            scores.spread / cues.SPREAD,
        ],
        axis=1,
    )


def loss(weights: Floats, pools: Sequence[tuple[Floats, AskedPool, float]], prior: Floats) -> tuple[float, Floats]:
    """Mean negative log probability of the evidence, with the ridge; and its gradient."""
    total, slope = RIDGE * float(np.square(weights - prior).sum()), 2 * RIDGE * (weights - prior)
    for features, asked, share in pools:
        exponents = features @ weights
        shifted = np.exp(exponents - exponents.max())
        probability = shifted / shifted.sum()
        target = asked.evidence / asked.evidence.sum()
        total -= share * float(target @ np.log(probability + 1e-12))
        slope = slope + share * (features.T @ (probability - target))
    return total, slope


def fit(files: Sequence[Sequence[tuple[Floats, AskedPool]]], without: str, prior: Floats) -> Floats:
    """Weights from every group but one."""
    pools: list[tuple[Floats, AskedPool, float]] = []
    for file in files:
        used = [(features, asked) for features, asked in file if asked.group != without and asked.evidence.any()]
        groups = [asked.group for _, asked in used]
        pools += [(f, asked, 1 / groups.count(asked.group) / len(set(groups))) for f, asked in used]
    return np.asarray(cast(Any, minimize)(loss, prior, (pools, prior), "L-BFGS-B", jac=True).x, np.float64)


def recalls(file: Sequence[tuple[Floats, AskedPool]], weights: Mapping[str, Floats]) -> str:
    """Mean recall at the cuts; every group by its own weights."""
    rows = [[asked.recall(features @ weights[asked.group], cut) for cut in CUTS] for features, asked in file]
    return " / ".join(f"{100 * share:.1f}" for share in np.mean(rows, axis=0))


def main() -> None:
    """Make the pools, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=Path, action="append", default=[])
    parser.add_argument("--measure", type=Path, action="append", default=[])
    parser.add_argument("--vectors", type=Path, default=Path(".bench/vectors"))
    options = parser.parse_args()
    embedder = build_embedder()
    files: dict[str, list[tuple[Floats, AskedPool]]] = {}
    for path in [*options.fit, *options.measure]:
        pools = asked_pools(path, embedder, options.vectors)
        files[path.stem] = [(columns(one, score(one.query_terms, one.pool, cues=one.cues)), one) for one in pools]
    fitted = [files[path.stem] for path in options.fit]
    groups = dict.fromkeys(asked.group for file in files.values() for _, asked in file)
    none = np.array([1.0, *(0.0 for _ in LIFTS)])
    today = np.array([1.0, *(getattr(cues, name) for name in LIFTS)])
    own = {group: fit(fitted, group, today) for group in groups}
    table = Table("weights", *files, title="recall@5 / @10")
    variants = {"no cues": dict.fromkeys(groups, none), "as they are": dict.fromkeys(groups, today), "fitted": own}
    for name, weights in variants.items():
        table.add_row(name, *(recalls(file, weights) for file in files.values()))
    console = Console()
    console.print(table)
    everything = fit(fitted, "", today)
    for name, now, then in zip(LIFTS, today[1:], everything[1:] / everything[0], strict=True):
        console.print(f"{name} = {now:.2f}, fitted {then:.2f}")


if __name__ == "__main__":
    main()
