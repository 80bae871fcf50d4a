"""The Python client's modules for agent frameworks, with the real frameworks, in their own environment.

`make build/frameworks/.installed` makes it. Without it, all but the size of the modules is skipped.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mnemolog_client import Mnemolog
from tests.acceptance.running import SECRET, Server
from tests.clients.python.stub import Received, Reply, Stub

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).with_name("modules")
MODULES = ROOT / "clients" / "python" / "mnemolog_client"
ENVIRONMENT = ROOT / "build" / "frameworks"
NAMES = ("anthropic", "google_adk", "langgraph", "llama_index", "openai_agents", "pydantic_ai")
WITHIN_S = 200
needs_frameworks = pytest.mark.skipif(
    not (ENVIRONMENT / ".installed").exists(), reason="`make build/frameworks/.installed` has not run, or failed"
)
pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def python(server: Server | None, *arguments: str | Path, **variables: str) -> str:
    """What a program prints in the environment of the frameworks; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(MODULES.parent), **variables}
    if server is not None:
        environment |= {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}
    command = [ENVIRONMENT / "bin" / "python", *arguments]
    ended = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == 0, ended.stdout[-8_000:] + ended.stderr[-8_000:]
    return ended.stdout


def example(server: Server, name: str, *arguments: str, **variables: str) -> str:
    """What an example prints."""
    return python(server, ROOT / "examples" / f"{name}.py", *arguments, **variables)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_fewer_than_90_lines(name: str):
    assert len((MODULES / f"{name}.py").read_text().splitlines()) < 90


@needs_frameworks
@pytest.mark.parametrize("name", ["adapters", "memory_tool", "tool_schemas"])
def test_modules_work_with_the_real_frameworks(server: Server, name: str):
    options = ["-c", os.devnull, "--rootdir", HERE, "--noconftest", "-p", "no:cacheprovider", "-q"]
    settings = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    said = python(server, "-m", "pytest", *options, *settings, HERE / f"{name}.py")
    assert " passed" in said
    assert "skipped" not in said


@needs_frameworks
def test_modules_and_examples_have_the_types_of_the_frameworks():
    paths = [
        *(MODULES / f"{name}.py" for name in NAMES),
        *(ROOT / "examples" / f"{name}.py" for name in EXAMPLES),
        HERE,
    ]
    configuration = {
        "include": [os.path.relpath(path, ENVIRONMENT.parent) for path in paths], "venvPath": ".",
        "venv": ENVIRONMENT.name, "pythonVersion": "3.11", "typeCheckingMode": "strict",
        "extraPaths": [str(MODULES.parent)], "reportMissingTypeStubs": False, "reportUnknownMemberType": False,
    }  # fmt: skip
    project = ENVIRONMENT.parent / "frameworks.pyright.json"
    project.write_text(json.dumps(configuration))
    command = [Path(sys.executable).parent / "pyright", "-p", project, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2 * len(NAMES) + 3
    assert report["generalDiagnostics"] == []


# examples


@needs_frameworks
def test_langgraph_nodes_share_a_store(server: Server):
    lines = example(server, "langgraph_store").splitlines()
    fact = "Bob drinks green tea."
    assert lines == ["before: nothing is known", f"first run: {fact}", f"second run: {fact}",
                     "another user: nothing is known"]  # fmt: skip


@needs_frameworks
def test_a_pydantic_ai_agent_recalls_what_it_remembered_in_another_run(server: Server):
    remembered, recalled = example(server, "pydantic_ai_toolset").splitlines()
    assert remembered.startswith("Remembered as mem_")
    assert "We deploy on Tuesdays" in recalled


@needs_frameworks
def test_a_llama_index_engine_has_what_is_recalled_in_its_prompt(server: Server):
    assert "- The staging database is reset every night." in example(server, "llama_index_block")


@needs_frameworks
def test_an_agent_of_the_adk_loads_what_its_user_said_in_another_session(server: Server):
    first, second = example(server, "google_adk_memory").split("answer: ")[1:]
    assert first.strip() == "Noted."
    assert second.startswith("I found:")
    assert "My sister lives in Lisbon." in second


@needs_frameworks
def test_a_conversation_of_the_openai_agents_sdk_goes_on_in_another_process(server: Server, stub: Stub):
    session = f"s-{uuid4().hex}"
    model = {"OPENAI_BASE_URL": f"{stub.url}/v1", "OPENAI_API_KEY": "none"}
    stub.answers.extend([chat("Hello Bob."), chat("You are Bob.")])
    first = example(server, "openai_agents_session", session, "My name is Bob.", **model)
    second = example(server, "openai_agents_session", session, "What is my name?", **model)
    assert (first.splitlines(), second.splitlines()) == (
        ["answer: Hello Bob.", "items: 2"],
        ["answer: You are Bob.", "items: 4"],
    )
    texts = [(one["role"], one["content"]) for one in stub.received[-1].body["messages"]]
    assert [role for role, _ in texts] == ["user", "assistant", "user"]
    assert (texts[0][1], texts[2][1]) == ("My name is Bob.", "What is my name?")


def chat(text: str) -> Reply:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return Reply({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


@needs_frameworks
def test_claude_reads_and_changes_files_that_are_memories(server: Server, stub: Stub):
    notes = "/memories/deploy.md"
    stub.answers.extend(
        [
            tool_use(command="view", path="/memories"),
            tool_use(command="create", path=notes, file_text="We deploy on Mondays.\n"),
            tool_use(command="str_replace", path=notes, old_str="Mondays", new_str="Tuesdays"),
            tool_use(command="delete", path="/memories/none.md"),
            message({"type": "text", "text": "Noted."}, "end_turn"),
        ]
    )
    said = example(server, "anthropic_memory_tool", "Remember it.", ANTHROPIC_BASE_URL=stub.url, ANTHROPIC_API_KEY="x")
    assert said.splitlines() == ["answer: Noted.", f"{notes}, version 2:", "We deploy on Tuesdays.", ""]
    assert stub.received[0].body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = [result_of(received) for received in stub.received[1:]]
    assert results[0][0].startswith("Here're the files and directories up to 2 levels deep in /memories")
    assert results[1] == (f"File created successfully at: {notes}", False)
    assert results[2][0].endswith("     1\tWe deploy on Tuesdays.\n     2\t")
    assert results[3] == ("Error: The path /memories/none.md does not exist", True)
    with Mnemolog(server.url, SECRET) as client:
        (memory,) = client.memories.list("memory-files", latest=True)
        assert client.search("when do we deploy?", project="memory-files")[0].id == memory.id


def tool_use(**command: Any) -> Reply:
    """A message that wants the memory tool called."""
    return message({"type": "tool_use", "id": "t1", "name": "memory", "input": command}, "tool_use")


def message(content: dict[str, Any], stop_reason: str) -> Reply:
    """A message of the model."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [content], "usage": usage}
    return Reply({**said, "stop_reason": stop_reason, "stop_sequence": None})


def result_of(received: Received) -> tuple[str, bool]:
    """What the tool answered, and whether it is an error, as the model was told."""
    (block,) = received.body["messages"][-1]["content"]
    content = block["content"]
    return (content if isinstance(content, str) else content[0]["text"]), bool(block.get("is_error"))


EXAMPLES: dict[str, Callable[..., None]] = {
    "anthropic_memory_tool": test_claude_reads_and_changes_files_that_are_memories,
    "google_adk_memory": test_an_agent_of_the_adk_loads_what_its_user_said_in_another_session,
    "langgraph_store": test_langgraph_nodes_share_a_store,
    "llama_index_block": test_a_llama_index_engine_has_what_is_recalled_in_its_prompt,
    "openai_agents_session": test_a_conversation_of_the_openai_agents_sdk_goes_on_in_another_process,
    "pydantic_ai_toolset": test_a_pydantic_ai_agent_recalls_what_it_remembered_in_another_run,
}
