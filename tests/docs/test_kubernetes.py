"""The chart in deploy/helm, rendered, against Kubernetes' schemas and the code it starts. Nothing is applied."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import kubernetes_validate
import pytest
import yaml

from api.http.serving import STOP_WITHIN_S
from api.native.catalog import MODULES
from ingest.log.keys import LEASE_TTL
from ingest.platform.settings import VARIABLES, from_environment
from tests.docs.test_compose import COMPOSE, DOCKERFILE, commands
from tests.support.helm import CHART, MISSING, helm, program, render

if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/run-on-kubernetes.md").read_text()
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
MANIFESTS = render()
NAMED = {(one["kind"], one["metadata"]["name"]): one for one in MANIFESTS}
API, WORKER = NAMED["Deployment", "mnemolog-api"], NAMED["Deployment", "mnemolog-worker"]
SETTINGS: dict[str, str] = NAMED["ConfigMap", "mnemolog"]["data"]
SECRETS = {"REDIS_URL": "redis+cluster://a:6379,b:6379", "MNEMOLOG_JOBS_REDIS_URL": "redis://c:6379"} | {
    "MNEMOLOG_SECRET": "of this test"
}
OLDEST, NEWEST = "1.30", "1.37"
"""Of Kubernetes: the one that the page names, and the newest whose schemas are at hand."""


def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    """What a deployment starts."""
    return deployment["spec"]["template"]["spec"]


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    """Its one container."""
    (only,) = pod(deployment)["containers"]
    return only


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", NAMED, ids=" ".join)
def test_a_manifest_is_valid(name: tuple[str, str], version: str):
    """Strictly: a field that Kubernetes does not know is an error."""
    kubernetes_validate.validate(NAMED[name], version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**API, "spec": {**API["spec"], "replica": 2}}, NEWEST, strict=True)


def test_the_page_and_the_chart_name_the_oldest_release():
    assert f"Kubernetes {OLDEST}" in PAGE
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"


def test_the_chart_passes_helms_linter():
    done = helm("lint", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def leaves(values: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value that has none below it, by its path."""
    if not isinstance(values, dict):
        return {path: values}
    entries = cast(dict[str, Any], values)
    return {leaf: value for name, below in entries.items() for leaf, value in leaves(below, (*path, name)).items()}


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Values for Helm that change the one at a path."""
    return {path[0]: changed(path[1:], value) if path[1:] else value}


OTHER: dict[str, Any] = {"pullPolicy": "Always", "memory": "3Gi", "size": "9Gi", "redisPorts": [7000]}
"""Valid values for those whose text or number cannot be changed freely."""


@pytest.mark.parametrize("path", leaves(VALUES), ids=".".join)
def test_every_value_changes_what_is_rendered_and_stays_valid(path: tuple[str, ...]):
    before = leaves(VALUES)[path]
    value: Any = OTHER.get(path[-1], before + 1 if isinstance(before, int) else f"{before or 'other'}0")
    manifests = render(changed(path, value))
    assert manifests != MANIFESTS
    assert str(value).strip("[]") in json.dumps(manifests)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, NEWEST, strict=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("api", "replicas"), 3),
        (("worker", "replicas"), "3"),
        (("settings", "MNEMOLOG_PARTITIONS"), 64),
        (("settings", "MNEMOLOG_SECRET"), "in a config map"),
        (("settings", "REDIS_URL"), "redis://user:password@log:6379"),
        (("snapshots", "size"), "20"),
        (("networkPolicy", "redisPorts"), []),
        (("secret",), ""),
    ],
    ids=str,
)
def test_a_value_that_would_not_work_is_refused_by_the_schema(path: tuple[str, ...], value: Any):
    done = helm("template", "mnemolog", values=changed(path, value))
    assert done.returncode != 0
    assert "specifications of the schema" in done.stderr


def test_two_releases_in_a_namespace_share_no_name():
    assert not {(manifest["kind"], manifest["metadata"]["name"]) for manifest in render(release="second")} & set(NAMED)


def test_a_claim_that_exists_is_used_instead_of_a_new_one():
    manifests = render({"snapshots": {"existingClaim": "shared"}})
    assert not [manifest for manifest in manifests if manifest["kind"] == "PersistentVolumeClaim"]
    assert json.dumps(manifests).count('{"claimName": "shared"}') == 2


def test_names_are_given_once():
    assert len(NAMED) == len(MANIFESTS)


def test_settings_exist_and_can_be_read():
    assert set(SETTINGS) <= set(VARIABLES)
    settings = from_environment({**SETTINGS, **SECRETS})
    assert settings.host == "0.0.0.0"
    assert settings.secret == "of this test"
    assert settings.jobs_redis_url == "redis://c:6379"


def test_secrets_are_no_part_of_the_manifests_and_the_page_makes_them():
    assert not [one for one in MANIFESTS if one["kind"] == "Secret"]
    assert not set(SECRETS) & set(SETTINGS)
    assert set(re.findall(r"--from-literal=(\w+)=", PAGE)) == set(SECRETS)
    assert "create secret generic mnemolog " in PAGE


@pytest.mark.parametrize("deployment", [API, WORKER], ids=["api", "worker"])
def test_a_pod_runs_a_command_with_the_settings_and_the_image_of_this_release(deployment: dict[str, Any]):
    started = container(deployment)
    assert started["command"] == ["mnemolog", started["name"]]
    assert started["name"] in commands()
    assert started["envFrom"] == [{"configMapRef": {"name": "mnemolog"}}, {"secretRef": {"name": "mnemolog"}}]
    assert started["image"] == COMPOSE["x-images"]["mnemolog"]


@pytest.mark.parametrize("deployment", [API, WORKER], ids=["api", "worker"])
def test_a_pod_is_confined(deployment: dict[str, Any]):
    user = re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert user is not None
    told = pod(deployment)
    assert told["automountServiceAccountToken"] is False
    assert told["securityContext"]["runAsNonRoot"] is True
    assert told["securityContext"]["runAsUser"] == int(user[1])
    assert told["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in told["containers"]:
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(one["resources"]["requests"])
        assert "memory" in one["resources"]["limits"]


@pytest.mark.parametrize("deployment", [API, WORKER], ids=["api", "worker"])
def test_folders_that_are_written_are_volumes(deployment: dict[str, Any]):
    settings = from_environment({**SETTINGS, **SECRETS})
    mounted = {one["mountPath"]: one["name"] for one in container(deployment)["volumeMounts"]}
    assert mounted == {str(settings.cache_dir): "cache", str(settings.snapshots): "snapshots", "/tmp": "tmp"}
    assert {one["name"] for one in pod(deployment)["volumes"]} == set(mounted.values())
    claims = {
        one["persistentVolumeClaim"]["claimName"]
        for one in pod(deployment)["volumes"]
        if "persistentVolumeClaim" in one
    }
    assert {("PersistentVolumeClaim", name) for name in claims} <= set(NAMED)


def test_api_and_worker_have_the_same_volumes_and_account():
    for name in ("volumes", "securityContext", "serviceAccountName"):
        assert pod(API)[name] == pod(WORKER)[name]
    assert ("ServiceAccount", pod(API)["serviceAccountName"]) in NAMED


def test_probes_ask_what_the_api_answers():
    paths = {endpoint.path for module in MODULES for endpoint in module.ENDPOINTS}
    started = container(API)
    assert {started[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe")} == {"/livez"}
    (port,) = started["ports"]
    assert {started[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe")} == {port["name"]}
    assert str(port["containerPort"]) == SETTINGS["MNEMOLOG_PORT"]
    assert f"http://127.0.0.1:{SETTINGS['MNEMOLOG_PORT']}/readyz" in started["readinessProbe"]["exec"]["command"][-1]
    assert {"/livez", "/readyz"} <= paths


def test_a_pod_that_ends_has_the_time_that_its_process_takes():
    before = container(API)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(API)["terminationGracePeriodSeconds"] >= before + STOP_WITHIN_S
    assert timedelta(seconds=pod(WORKER)["terminationGracePeriodSeconds"]) >= 5 * LEASE_TTL


@pytest.mark.parametrize("deployment", [API, WORKER], ids=["api", "worker"])
def test_what_selects_pods_selects_those_of_one_deployment(deployment: dict[str, Any]):
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    budget = NAMED["PodDisruptionBudget", deployment["metadata"]["name"]]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    (spread,) = pod(deployment)["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert NAMED["NetworkPolicy", "mnemolog"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_service_and_the_autoscaler_are_of_the_api():
    service = NAMED["Service", "mnemolog"]["spec"]
    assert service["selector"] == API["spec"]["template"]["metadata"]["labels"]
    (port,) = service["ports"]
    assert port["targetPort"] == container(API)["ports"][0]["name"]
    scaled = NAMED["HorizontalPodAutoscaler", "mnemolog-api"]["spec"]
    assert scaled["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mnemolog-api"}
    assert "replicas" not in API["spec"]  # or every apply would undo what the autoscaler did
    assert scaled["minReplicas"] >= 2


def test_clients_and_redis_pass_the_network_policy():
    policy = NAMED["NetworkPolicy", "mnemolog"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (entry,) = policy["ingress"]
    assert [str(one["port"]) for one in entry["ports"]] == [SETTINGS["MNEMOLOG_PORT"]]
    (out,) = policy["egress"]
    assert {6379, 53, 443} == {one["port"] for one in out["ports"]}
    ((name, value),) = entry["from"][0]["podSelector"]["matchLabels"].items()
    assert f"{name}={value}" in PAGE
