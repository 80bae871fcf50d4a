"""What an import has done so far: counted by kind, with the reasons for what was not taken."""

from typing import Any

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from api.cli.output import Output, one_line

MAX_REASONS, MAX_EXAMPLES = 50, 5
"""Reasons a kind has, and rows that are named for each; the counts are of all of them."""
OTHER = "other reasons"


class ReasonCount(Struct):
    """Why rows were not taken, or what of them is not kept: how many, and some of them."""

    rows: int = 0
    examples: list[str] = []


class KindCounts(Struct):
    """Rows of one kind: taken and skipped; and the events of the taken ones, new to the server or known already.

    `superseded`: memories that were there, or came before, and that later rows state again.
    """

    taken: int = 0
    skipped: int = 0
    new: int = 0
    known: int = 0
    superseded: int = 0
    why: dict[str, ReasonCount] = {}
    lost: dict[str, ReasonCount] = {}


class ImportReport(Struct):
    """What was done, by kind of row, in the order in which the kinds came."""

    kinds: dict[str, KindCounts] = {}

    def kind(self, name: str) -> KindCounts:
        """The counts of a kind."""
        return self.kinds.setdefault(name, KindCounts())

    def skip(self, kind: str, row: str, reason: str) -> None:
        """A row was not taken."""
        self.kind(kind).skipped += 1
        _count(self.kind(kind).why, reason, row)

    def lose(self, kind: str, row: str, what: str) -> None:
        """A row was taken, and something of it is not kept."""
        _count(self.kind(kind).lost, what, row)

    @property
    def rows(self) -> int:
        """How many rows were dealt with."""
        return sum(one.taken + one.skipped for one in self.kinds.values())


def _count(reasons: dict[str, ReasonCount], reason: str, row: str) -> None:
    if reason not in reasons and len(reasons) >= MAX_REASONS:
        reason = OTHER
    counted = reasons.setdefault(reason, ReasonCount())
    counted.rows += 1
    if len(counted.examples) < MAX_EXAMPLES:
        counted.examples.append(row[:100])


def show(output: Output, report: ImportReport, *, dry: bool) -> None:
    """The report for people: a table, and below it every reason."""
    headings = ("kind", "taken", "skipped") if dry else ("kind", "taken", "skipped", "events new", "known already")
    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, kind in report.kinds.items():
        counts = [kind.taken, kind.skipped, *(() if dry else (kind.new, kind.known))]
        table.add_row(name, *(f"{count:,}" for count in counts))
    output.show(table)
    for name, kind in report.kinds.items():
        if kind.superseded:
            output.line(Text(f"superseded, {name}: {kind.superseded:,} that later ones state again"))
        for title, reasons in (("skipped", kind.why), ("not kept", kind.lost)):
            for reason, counted in sorted(reasons.items(), key=lambda one: -one[1].rows):
                some = ", ".join(one_line(one, 40) for one in counted.examples)
                more = ", …" if counted.rows > len(counted.examples) else ""
                line = f"{title}, {name}: {counted.rows:,} × {one_line(reason)} ({some}{more})"
                output.line(Text(line, style="yellow" if title == "skipped" else "dim"))


def document(report: ImportReport, **more: Any) -> dict[str, Any]:
    """The report as a JSON document."""
    return {**more, "rows": report.rows, "kinds": report.kinds}
