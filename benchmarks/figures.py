"""What a benchmark declares (question, figures, units, bars), and the table of what was measured. Pure."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

HEADS = ("figure", "measured", "bar", "raw limit of the same run", "ratio to raw")
Figures = dict[str, Any]
Results = Mapping[str, Any]
"""Figures by benchmark."""
Run = TypeVar("Run", bound=Callable[..., Any])


class Row(NamedTuple):
    """A figure: its label, the key under which the benchmark returns it, its unit, and its bar: at least, or at most.

    `raw` is the key of the raw limit that it is compared with.
    """

    figure: str
    key: str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    raw: str = ""
    raw_name: str = ""

    @property
    def bar(self) -> str:
        """As text."""
        if self.at_least is not None:
            return f">= {written(self.at_least, self.unit)}"
        return f"<= {written(self.at_most, self.unit)}" if self.at_most is not None else ""

    def missed(self, value: float) -> bool:
        """Whether a value does not meet the bar."""
        return (self.at_least is not None and value < self.at_least) or (
            self.at_most is not None and value > self.at_most
        )


class Benchmark(NamedTuple):
    """A question, the function that answers it with figures, and the rows of the table that those figures fill."""

    name: str
    run: Callable[..., Any]
    rows: tuple[Row, ...]
    settings: Mapping[str, str]
    """Of the server that the runner starts for it."""
    quick: Mapping[str, Any]
    """Options of a run that only shows that it works."""
    needs_data: bool
    apart: bool
    """Each data set is measured on a server of its own."""
    long: bool
    """Runs only when it is named."""

    @property
    def question(self) -> str:
        """The first paragraph of the function's docstring."""
        return " ".join(inspect.cleandoc(self.run.__doc__ or "").partition("\n\n")[0].split())

    @property
    def options(self) -> dict[str, Any]:
        """The function's parameters that the command line can set, with defaults."""
        takes = inspect.signature(self.run).parameters.values()
        return {it.name: it.default for it in takes if it.default is not inspect.Parameter.empty}


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(
    *rows: Row, settings: Mapping[str, str] | None = None, quick: Mapping[str, Any] | None = None, needs_data: bool =
    False, apart: bool = False, long: bool = False, name: str = "",
) -> Callable[[Run], Run]:  # fmt: skip
    """Declare a benchmark. A function that takes `server` gets a running one; one that takes `data`, paths by name."""

    def declare(run: Run) -> Run:
        it = Benchmark(name or run.__name__, run, rows, settings or {}, quick or {}, needs_data, apart, long)
        BENCHMARKS[it.name] = it
        return run

    return declare


def table(results: Results, benchmarks: Mapping[str, Benchmark], *, rest: bool = False) -> str:
    """The figures of a run as Markdown: those that are declared, and with `rest` all others by their keys."""
    lines = [HEADS, ("---",) * len(HEADS)]
    for name, figures in results.items():
        for row in benchmarks[name].rows:
            raw, value = number(figures, row.raw), number(figures, row.key)
            if value is None:
                continue
            ratio = written(value / raw) if raw else ""
            limit = f"{row.raw_name} {written(raw, row.unit)}" if raw is not None else ""
            shown = written(value, row.unit) + " (missed)" * row.missed(value)
            lines.append((row.figure, shown, row.bar, limit, ratio))
        keys = {row.key for row in benchmarks[name].rows}
        others = [(key, value) for key, value in _flat(figures) if key not in keys] if rest else []
        lines += ((f"{name}: {key}", str(value), "", "", "") for key, value in others)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _flat(figures: Results, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(cast("Results", value), f"{before}{name}.")
        else:
            yield before + name, value


def number(figures: Any, key: str) -> float | None:
    """The number under a key whose names are joined by dots; None if it is missing."""
    for name in key.split("."):
        figures = cast("Results", figures).get(name) if isinstance(figures, Mapping) else None
    return float(figures) if isinstance(figures, int | float) else None


def written(value: float, unit: str = "") -> str:
    """A figure with its unit, to three or four significant digits."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text}{unit}" if unit in ("", "/s", "%") else f"{text} {unit}"
