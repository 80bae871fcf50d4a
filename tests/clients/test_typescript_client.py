"""The TypeScript client: its own tests, its twin in Python, real servers, the packed package, examples and pages.

Node runs what `tsc` makes of it. Without Node, or its packages, all but the comparison of versions is skipped.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

import mnemolog_client
from mnemolog_client.files import FileError, MemoryFiles, run
from tests.acceptance.running import SECRET, Server
from tests.clients.python.test_agreement import CALLS
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
MODULES = CLIENT / "node_modules"
NODE, NPM = shutil.which("node"), shutil.which("npm")
WITHIN_S = 200
EVENTS, SESSIONS = 2_000, 4
AS_STRICT_AS_THE_CLIENT = {
    "strict": True, "noUncheckedIndexedAccess": True, "exactOptionalPropertyTypes": True, "erasableSyntaxOnly": True,
    "module": "nodenext", "target": "es2022",
}  # fmt: skip
FRAMEWORKS = ROOT / "tests/ring/frameworks/modules"
OF_FRAMEWORKS = ("ai_sdk_tools", "mastra_agent")
EXAMPLES = {path.stem: path.read_text() for path in (ROOT / "examples").glob("*.ts")}
BLOCKS = {
    f"{page.parent.name}_{page.stem}_{number}": block
    for page in (CLIENT / "README.md", ROOT / "docs" / "clients.md")
    for number, block in enumerate(re.findall(r"^```ts\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
}
PROGRAMS = {**{name: text for name, text in EXAMPLES.items() if name not in OF_FRAMEWORKS}, **BLOCKS}
"""What a user may write, by name."""
needs_node = pytest.mark.skipif(
    NODE is None or NPM is None or not (MODULES / ".installed").exists(),
    reason="Node with npm is not installed, or `make clients/typescript/node_modules/.installed` has not run",
)


def done(command: Sequence[str | Path], cwd: Path, given: str | None = None, **variables: str) -> str:
    """What a command prints; it must succeed."""
    environment = {**os.environ, "FORCE_COLOR": "0", **variables}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == 0, ended.stdout[-8_000:] + ended.stderr[-8_000:]
    return ended.stdout


def of(server: Server) -> dict[str, str]:
    """The variables with which a client finds a server."""
    return {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}


def tsc(*options: str | Path) -> None:
    """Check, and perhaps compile, sources of the client and its tests."""
    done([MODULES / ".bin" / "tsc", *options], CLIENT)


@pytest.fixture(scope="session")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled tests; the compiler found nothing wrong."""
    folder = tmp_path_factory.mktemp("typescript")
    tsc("--noEmit", "false", "--outDir", folder)
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder / "test"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user: the packed package is installed, and nothing else but the types of Node."""
    folder = tmp_path_factory.mktemp("workspace")
    tsc("--project", "tsconfig.build.json")
    assert NPM is not None
    done([NPM, "pack", "--ignore-scripts", "--silent", "--pack-destination", folder], CLIENT)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    modules = folder / "node_modules"
    modules.mkdir()
    (folder / "package").rename(modules / "mnemolog-client")
    for name in ("@types", "undici-types"):
        (modules / name).symlink_to(MODULES / name)
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    for name, text in PROGRAMS.items():
        (folder / f"{name}.ts").write_text(text)
    compilation = {**AS_STRICT_AS_THE_CLIENT, "types": ["node"]}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": compilation, "include": ["*.ts"]}))
    done([MODULES / ".bin" / "tsc"], folder)
    return folder


@pytest.fixture(scope="session")
def with_frameworks(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the AI SDK and Mastra, and the examples for them."""
    folder = tmp_path_factory.mktemp("frameworks")
    modules = folder / "node_modules"
    modules.mkdir()
    shutil.copytree(workspace / "node_modules" / "mnemolog-client", modules / "mnemolog-client")
    for name in ("@types", "undici-types", "@ai-sdk", "ai"):
        (modules / name).symlink_to(MODULES / name)
    if (FRAMEWORKS / "node_modules" / ".installed").exists():
        (modules / "@mastra").symlink_to(FRAMEWORKS / "node_modules" / "@mastra")
    names = [name for name in OF_FRAMEWORKS if name != "mastra_agent" or (modules / "@mastra").exists()]
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    for name in names:
        (folder / f"{name}.ts").write_text(EXAMPLES[name])
    compilation = {**AS_STRICT_AS_THE_CLIENT, "types": ["node"], "skipLibCheck": True}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": compilation, "include": ["*.ts"]}))
    done([MODULES / ".bin" / "tsc"], folder)
    return folder


@needs_node
@pytest.mark.parametrize("name", sorted(path.stem for path in (CLIENT / "test").glob("*.test.ts")))
def test_unit_tests_pass(tests: Path, name: str):
    assert "# fail 0" in node_tests(tests / f"{name}.js")


def node_tests(path: Path, **variables: str) -> str:
    """What Node's test runner says of a file; nothing fails in it, and something is tested."""
    assert NODE is not None
    said = done([NODE, "--test", "--test-reporter=tap", path], path.parent, **variables)
    assert int(re.findall(r"^# tests (\d+)$", said, re.MULTILINE)[0]) > 1
    return said


@needs_node
def test_what_a_client_writes_it_reads_from_a_real_server(tests: Path, server: Server):
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {SECRET}"}, trust_env=False) as operator:
        asked = {"name": "limited", "roles": ["read"], "reads_per_minute": 30}
        made = operator.post("/v1/admin/keys", json=asked).raise_for_status().json()
    said = node_tests(tests / "server" / "client.test.js", MNEMOLOG_LIMITED_KEY=made["key"], **of(server))
    assert "# fail 0" in said


@needs_node
def test_a_server_that_is_killed_loses_doubles_and_disorders_nothing_that_was_emitted(
    tests: Path, server: Server, project: str, tmp_path: Path
):
    """SIGKILL of the API, the worker and Valkey in the middle of 2,000 observations, and a start again."""
    supervisor = server.supervisor
    children = [child.pid for child in (supervisor.api, supervisor.worker, supervisor.valkey) if child is not None]
    assert NODE is not None
    command = [NODE, str(tests / "server" / "emitting.js"), str(tmp_path), project]
    with subprocess.Popen(
        command, env={**os.environ, **of(server)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "kill\n"
        for pid in children:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        assert program.stdout.readline() == "trouble\n"

        def started_again() -> bool:
            supervisor.watch()
            return supervisor.ready()

        asyncio.run(wait_until(started_again, timeout_s=60))
        told = json.loads(program.stdout.readline())
    assert program.returncode == 0
    assert told["stats"]["accepted"] + told["stats"]["duplicates"] == EVENTS
    assert (told["stats"]["waiting"], told["stats"]["rejected"]) == (0, 0)
    assert told["sessions"] == [[str(n) for n in range(session, EVENTS, SESSIONS)] for session in range(SESSIONS)]
    assert Counter(told["logged"]) == Counter(told["ids"])
    assert len(told["ids"]) == EVENTS


@needs_node
def test_what_one_client_left_in_a_spool_the_other_sends(tests: Path, server: Server, project: str, tmp_path: Path):
    """Each emits to nobody, and the other to the server."""
    ours, theirs, nobody = tmp_path / "python", tmp_path / "typescript", "http://127.0.0.1:1"

    def run(*arguments: str | Path, url: str = server.url) -> str:
        assert NODE is not None
        return done([NODE, "leaving.js", *arguments], tests / "server", MNEMOLOG_URL=url, MNEMOLOG_SECRET=SECRET)

    assert run(theirs, project, "1", "2", "3", url=nobody) == "0\n"
    with mnemolog_client.Mnemolog(nobody) as client:
        emitter = client.emitter(ours)
        emitter.observe("s1", "4", project=project)
        emitter.observe("s1", "5", project=project)
        emitter.close(timeout_s=0.0)
    with mnemolog_client.Mnemolog(server.url, SECRET) as client:
        with client.emitter(theirs) as emitter:
            emitter.flush()
            assert emitter.stats.accepted == 3
        assert run(ours, project) == "2\n"
        logged = client.events(project=project, type="observation.recorded")
        assert [one.data["content"] for one in logged] == ["1", "2", "3", "4", "5"]


# the twin in Python


def camel(name: str) -> str:
    """A name of Python as JavaScript has it."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def without_event_ids(text: str | None) -> Any:
    """What a body says but its event ids; a batch is the list of its commands."""
    if not text:
        return None
    commands = [json.loads(line) for line in text.splitlines()]
    return [{name: value for name, value in command.items() if name != "event_id"} for command in commands]


@needs_node
def test_every_call_of_the_python_client_is_the_same_request_in_typescript(tests: Path):
    """So what `test_agreement.py` says of the Python client and the server holds for this one, too."""
    assert NODE is not None
    theirs: dict[str, Any] = json.loads(done([NODE, tests / "server" / "calls.js"], tests))
    ours = dict(CALLS)
    assert theirs.keys() == {camel(name) for name in ours}
    for name, call in ours.items():
        sent = theirs[camel(name)]
        query, content = call.parameters("1:1-0"), call.encoded("1:1-0")
        assert (sent["method"], sent["path"]) == (call.method, call.path), name
        assert ("event_id" in sent["query"]) == ("event_id" in query), name
        assert {**sent["query"], "event_id": ""} == {**query, "event_id": ""}, name
        body = None if content is None else content.decode()
        assert without_event_ids(sent.get("body")) == without_event_ids(body), name
        assert (sent.get("body") or "").count('"event_id"') == (body or "").count('"event_id"'), name


@needs_node
def test_what_the_python_client_exports_the_typescript_client_exports(workspace: Path):
    """Without blocking ones, and `answers`, which are types."""
    program = 'import * as all from "mnemolog-client"; console.log(JSON.stringify(Object.keys(all)))'
    assert NODE is not None
    exported = set(json.loads(done([NODE, "--input-type=module", "--eval", program], workspace)))
    types = set(re.findall(r"\w+", (CLIENT / "src" / "index.ts").read_text()))
    expected = {name for name in mnemolog_client.__all__ if not name.startswith("Async")} - {"answers"}
    assert expected <= exported | types
    assert expected - exported == {"EmitterStats"}


@needs_node
def test_an_emitter_has_what_the_python_emitter_has(tests: Path):
    program = (
        f'import {{ Emitter }} from "{(tests.parent / "src" / "index.js").as_uri()}";'
        "console.log(JSON.stringify(Object.getOwnPropertyNames(Emitter.prototype)))"
    )
    assert NODE is not None
    names = set(json.loads(done([NODE, "--input-type=module", "--eval", program], tests)))
    public = {name for name in vars(mnemolog_client.AsyncEmitter) if not name.startswith("_")}
    assert names - {"constructor"} == public


# generated types, versions, what is packed


@needs_node
def test_types_are_those_of_the_servers_openapi_document():
    """After a change of the API: `make types`."""
    assert NODE is not None
    described = done([sys.executable, ROOT / "tools" / "openapi.py"], ROOT)
    made = done([NODE, CLIENT / "scripts" / "types.js"], CLIENT, described)
    assert made == (CLIENT / "src" / "openapi.ts").read_text(), "the API has changed: run `make types`"


def test_the_version_is_that_of_the_server():
    package = json.loads((CLIENT / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (package["version"], package["license"]) == (project["version"], project["license"])


def test_the_package_needs_no_other_and_its_tools_have_exact_versions():
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["devDependencies"].values())


@needs_node
def test_the_types_of_the_package_need_neither_node_nor_a_newer_library(workspace: Path):
    """A page of a browser compiles against them, with all checks of declarations."""
    folder = workspace / "page"
    folder.mkdir()
    (folder / "page.ts").write_text('import { Mnemolog } from "mnemolog-client";\nawait new Mnemolog().add("tea");\n')
    options: dict[str, Any] = {"strict": True, "module": "esnext", "moduleResolution": "bundler", "noEmit": True}
    options |= {"target": "es2022", "lib": ["es2022", "dom"], "types": [], "skipLibCheck": False}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))
    done([MODULES / ".bin" / "tsc"], folder)


@needs_node
def test_only_the_spool_imports_modules_of_node():
    importing = {path.name for path in (CLIENT / "src").glob("*.ts") if '"node:' in path.read_text()}
    assert importing == {"spool.ts"}
    assert json.loads((CLIENT / "package.json").read_text())["browser"] == {"./dist/spool.js": False}


# examples and pages


@needs_node
@pytest.mark.parametrize("name", BLOCKS)
def test_typescript_in_the_pages_runs(workspace: Path, server: Server, tmp_path: Path, name: str):
    text = (workspace / f"{name}.js").read_text()
    program = workspace / f"{name}_here.js"
    program.write_text(
        text.replace("http://127.0.0.1:3111", server.url).replace("/tmp/mnemolog-spool-ada", str(tmp_path))
    )
    assert NODE is not None
    done([NODE, "--throw-deprecation", program], workspace, **of(server))


def test_every_example_is_run():
    assert set(EXAMPLES) == {"agent_loop", *OF_FRAMEWORKS}


@needs_node
@pytest.mark.parametrize("name", OF_FRAMEWORKS)
def test_an_agent_of_a_framework_recalls_what_it_remembered(with_frameworks: Path, server: Server, name: str):
    if not (with_frameworks / f"{name}.js").exists():
        pytest.skip("`make tests/ring/frameworks/modules/node_modules/.installed` has not run, or failed")
    assert NODE is not None
    remembered, recalled = done([NODE, f"{name}.js"], with_frameworks, **of(server)).splitlines()
    (found,) = json.loads(recalled)
    assert (json.loads(remembered)["id"], "We deploy on Tuesdays, never on Fridays.") == (found["id"], found["content"])


@pytest.mark.parametrize("name", ["ai-sdk", "anthropic", "mastra"])
def test_a_module_for_a_framework_has_fewer_than_90_lines(name: str):
    assert len((CLIENT / "src" / f"{name}.ts").read_text().splitlines()) < 90


@needs_node
def test_a_model_calls_the_tools_through_the_ai_sdk(tests: Path, server: Server):
    assert "# fail 0" in node_tests(tests / "server" / "tools.test.js", **of(server))


@needs_node
def test_the_memory_tool_answers_and_stores_as_that_of_the_python_client(tests: Path, server: Server, project: str):
    others = [{"command": "create", "path": f"/memories/2/{name}", "file_text": name} for name in ("x" * 200, "y")]
    others += [{"command": "rename", "old_path": "/memories/2", "new_path": f"/memories/{'3' * n}"} for n in (400, 1)]
    commands = json.dumps(others + json.loads((FRAMEWORKS / "commands.json").read_text()))
    deleted: list[str] = []
    with mnemolog_client.Mnemolog(server.url, SECRET, agent="ada") as client:
        for name, text in product(("python", "typescript"), ("older", "newer")):  # two memories of one path
            tags = ["file:/memories/2/two", "blank:{", name]
            for title in ("/memories/2/two", "no file"):
                client.memories.create(
                    text, project=f"{project}-{name[0]}", title=title, keep_duplicates=True, tags=tags
                )
        assert all([*client.memories.list(f"{project}-{name}")] for name in "pt")  # waits for what the other reads
        files = MemoryFiles(
            f"{project}-p", fields={"tags": ["python"]}, on_deleted=lambda path, receipt: deleted.append(path)
        )
        expected = [answer_of(client, files, **command) for command in json.loads(commands)]
        assert NODE is not None
        printed = done([NODE, "files.js", f"{project}-t"], tests / "server", commands, **of(server))
        assert json.loads(printed) == {"answers": expected, "deleted": deleted}

        def stored(name: str) -> list[tuple[str, str, int, list[str]]]:
            memories = client.memories.list(f"{project}-{name[0]}", latest=True)
            return sorted((one.title, one.content, one.version, sorted({*one.tags} - {name})) for one in memories)

        deadline = time.monotonic() + 30
        while stored("typescript") != stored("python"):  # the position of the other client is not known here
            assert time.monotonic() < deadline, (stored("typescript"), stored("python"))
            time.sleep(0.1)


def answer_of(client: mnemolog_client.Mnemolog, files: MemoryFiles, command: str, **fields: Any) -> str:
    """What a command of the memory tool answers; an error is its text."""
    try:
        return run(client, getattr(files, command)(**fields))
    except FileError as error:
        return str(error)


@needs_node
def test_the_agent_loop_learns_from_its_first_session(workspace: Path, server: Server, tmp_path: Path):
    def run() -> str:
        assert NODE is not None
        return done([NODE, "agent_loop.js"], workspace, TMPDIR=str(tmp_path), **of(server))

    first = run()
    assert "to do: Repair: tests" in first
    assert "1 failed, 12 passed" in first.rsplit("observed:", 1)[1]
    second = run()
    assert "careful: Start the database before the tests." in second
    assert "The tests need the staging database." in second.split("node:")[0]
