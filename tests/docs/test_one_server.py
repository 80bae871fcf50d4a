"""The units and proxy configurations of docs/howto/one-server.md, read by the programs that use them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port

from ingest.platform.settings import VARIABLES
from tests.docs.test_compose import commands

ROOT = Path(__file__).parents[2]
UNITS = {path.name: path.read_text() for path in sorted((ROOT / "deploy/systemd").iterdir())}
SERVICES = {name: text for name, text in UNITS.items() if name.endswith(".service")}
PROXIES = ROOT / "deploy/proxy"
PAGE = (ROOT / "docs/howto/one-server.md").read_text()


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program, or skip the test if it is not installed. Its messages are in stdout."""
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin:/sbin:/bin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    command = [found, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)


def installed(folder: Path, units: dict[str, str]) -> list[Path]:
    """The units as files, which start the command of this environment."""
    command = Path(sys.executable).with_name("mnemolog")
    for name, text in units.items():
        (folder / name).write_text(text.replace("/usr/local/bin/mnemolog", str(command)))
    return [folder / name for name in units]


def test_systemd_finds_nothing_in_the_units_but_a_setting_that_it_does_not_know(tmp_path: Path):
    verified = run("systemd-analyze", "verify", *installed(tmp_path, UNITS)).stdout
    assert [line for line in verified.splitlines() if "mnemolog" in line] == []  # it also checks units of this system
    units = {name: text.replace("ProtectHome=", "ProtectHomes=") for name, text in UNITS.items()}
    assert "ProtectHomes" in run("systemd-analyze", "verify", *installed(tmp_path, units)).stdout


def test_systemd_rates_the_exposure_of_the_server_at_most_2_of_10(tmp_path: Path):
    def exposed(text: str) -> bool:
        units = installed(tmp_path, {"mnemolog.service": text})
        done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", *units)
        if "unrecognized option" in done.stdout:
            pytest.skip("this systemd is older than 250")
        return done.returncode != 0

    assert not exposed(UNITS["mnemolog.service"])
    assert exposed(re.sub(r"^(Protect|Private|Restrict).*\n", "", UNITS["mnemolog.service"], flags=re.MULTILINE))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_commands_that_exist_with_settings_that_exist(name: str):
    started = re.findall(r"^ExecStart=/usr/local/bin/mnemolog (\w+)", UNITS[name], re.MULTILINE)
    assert started
    assert set(started) <= commands()
    settings = dict(re.findall(r"(MNEMOLOG_\w+)=(\S+)", UNITS[name]))
    assert settings.keys() <= VARIABLES.keys()
    assert {value.partition("/")[2].partition("/")[0] for value in settings.values()} == {"mnemolog"}
    assert {f"{kind}Directory=mnemolog" for kind in ("State", "Cache")} <= set(UNITS[name].splitlines())


def test_services_have_the_same_user_settings_and_folders():
    shared = re.compile(r"^(?:User|Environment|StateDirectory\w*|CacheDirectory|ReadWritePaths)=.*$", re.MULTILINE)
    assert len({tuple(shared.findall(text)) for text in SERVICES.values()}) == 1


def test_the_page_fits_on_a_screen_and_names_what_is_installed():
    assert len(PAGE.splitlines()) <= 80
    assert all(name in PAGE for name in ("mnemolog.service", "mnemolog-backup.timer", "deploy/systemd/*"))
    assert set(re.findall(r"^ *(MNEMOLOG_\w+)=", PAGE, re.MULTILINE)) <= VARIABLES.keys()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    files = folder / "certificate.pem", folder / "key.pem"
    options = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=memory.example", "-days", "1"]
    made = run("openssl", *options, "-out", files[0], "-keyout", files[1])
    assert made.returncode == 0, made.stdout
    return files


def test_nginx_accepts_its_configuration(tmp_path: Path):
    server, (public, private) = (PROXIES / "nginx.conf").read_text(), certificate(tmp_path)
    for path, file in (("/etc/ssl/memory.example.pem", public), ("/etc/ssl/memory.example.key", private)):
        assert path in server
        server = server.replace(path, str(file))
    server = re.sub(r"(listen .*?)\b(?:80|443)\b", lambda port: f"{port[1]}{free_port()}", server)  # others need root
    logs = f"pid {tmp_path}/pid; error_log {tmp_path}/errors;"
    (tmp_path / "nginx.conf").write_text(f"{logs} events {{}} http {{ access_log off; {server} }}")
    tested = run("nginx", "-t", "-c", tmp_path / "nginx.conf")
    assert tested.returncode == 0, tested.stdout


def test_caddy_accepts_its_configuration():
    validated = run("caddy", "adapt", "--config", PROXIES / "Caddyfile", "--adapter", "caddyfile", "--validate")
    assert validated.returncode == 0, validated.stdout
    assert "warn" not in validated.stdout.lower()
