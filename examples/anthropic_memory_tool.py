"""Claude with Anthropic's memory tool, whose files are memories in mnemolog.

    pip install './clients/python[anthropic]'
    ANTHROPIC_API_KEY=... python examples/anthropic_memory_tool.py "Remember that we deploy on Tuesdays."

Claude looks into /memories before it works. Each change of a file is a version, and what it deletes is forgotten.
"""

import os
import sys

from anthropic import Anthropic

from mnemolog_client import Mnemolog, Unreachable
from mnemolog_client.anthropic import MemoryTool
from mnemolog_client.files import MemoryFiles

PROJECT = "memory-files"


def main(prompt: str) -> None:
    """One request; the runner carries out the tool's commands until Claude answers in words."""
    with Mnemolog(agent="claude") as memory:
        files = MemoryFiles(PROJECT, on_deleted=lambda path, receipt: print(f"forgot {path}: {receipt.event_id}"))
        runner = Anthropic().beta.messages.tool_runner(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5"),
            max_tokens=2_000,
            betas=["context-management-2025-06-27"],
            messages=[{"role": "user", "content": prompt}],
            tools=[MemoryTool(memory, files)],
        )
        answer = runner.until_done()
        print("answer:", "".join(block.text for block in answer.content if block.type == "text"))
        for document in memory.memories.list(PROJECT, latest=True):
            print(f"{document.title}, version {document.version}:\n{document.content}")


if __name__ == "__main__":
    try:
        main(" ".join(sys.argv[1:]))
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
