"""`python -m tests.fuzz --examples 10000`: fuzz every door of a server of its own; says what failed, and a table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.doors import all_doors
from tests.fuzz.fuzzing import fuzz, table
from tests.fuzz.tools import fuzz_tools

TOOLS_SHARE = 10
"""Of so many requests to the doors' endpoints, one more calls a tool."""


def main() -> int:
    """Returns 0 when every answer was what its door's document says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000, help="requests in all (10000)")
    parser.add_argument("--seed", type=int, default=1, help="where the random numbers begin (1)")
    parser.add_argument("--door", action="append", help="only this door, several by repeating it")
    parser.add_argument("--path", default="", help="only paths that contain this")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mnemo-") as folder, all_doors(Path(folder)) as doors:
        chosen = doors._replace(doors=[door for door in doors.doors if not asked.call or door.name in asked.call])
        for one in chosen.doors:
            one.document["paths"] = {path: it for path, it in one.document["paths"].items() if asked.path in path}
        reports = fuzz(chosen, asked.examples, asked.seed, lambda line: print(line, file=sys.stderr))
        if not (asked.call or asked.path):
            reports += fuzz_tools(doors, asked.examples // TOOLS_SHARE, asked.seed)
    failures = [failure for report in reports for failure in report.failures.values()]
    for one in failures:
        print(f"\n{one.operation}\n  {one.what}\n  {one.request}")
    print(f"\n{table(reports)}\n\nseed {asked.seed}, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
