"""Runs the conformance kit on one memory.

    python -m tools.conformance --adapter NAME|FILE [--command "..."] [--url URL] [--json]

Exits with 1 if a check fails.
"""

import argparse
import json
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.conformance.checks import CHECKS, Failed
from tools.conformance.memory import Memory


def main() -> int:
    """Run each check on a memory without data, and print a line for it; 1 if one fails."""
    parser = argparse.ArgumentParser("python -m tools.conformance")
    parser.add_argument("--adapter", required=True, help="a name in tools/conformance/adapters, or a TOML file")
    parser.add_argument("--command", help="how to start the memory, instead of the adapter's command")
    parser.add_argument("--url", default="", help="where it listens; without it, on a free port")
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    options = parser.parse_args()
    own = Path(__file__).with_name("adapters") / f"{options.adapter}.toml"
    adapter = tomllib.loads((own if own.exists() else Path(options.adapter)).read_text())
    adapter["command"] = options.command or adapter["command"]
    results: dict[str, tuple[str, str]] = {}
    for name, check in CHECKS.items():
        with tempfile.TemporaryDirectory(prefix="kit-", ignore_cleanup_errors=True) as folder:
            memory = Memory(adapter, Path(folder), options.url)
            try:
                memory.start()
                results[name] = "pass", check(memory)
            except KeyError as part:
                results[name] = "not applicable", f"the adapter has no {part}"
            except (Failed, OSError, RuntimeError) as error:
                results[name] = "fail", str(error)
            finally:
                memory.kill()
        if not options.json:
            print(*results[name][:1], name, *results[name][1:], sep=": ", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    return any(verdict == "fail" for verdict, _ in results.values())


if __name__ == "__main__":
    sys.exit(main())
