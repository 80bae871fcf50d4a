"""Runs the steps of deploy/Dockerfile in fresh roots, without a container engine, and then the image's server.

    sudo python -m tools.image [--suite bookworm] [--share PATH]...

debootstrap makes the base image: a minimal Debian with its own Python instead of the official Python image. Each stage
is a copy of it. At the end, the image's user starts `mnemolog up` with a read-only root and no network. Needs root and
debootstrap. This machine's package settings are copied; `--share` mounts a path that they name.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("resolv.conf", "apt/apt.conf.d", "apt/sources.list.d", "apt/sources.list", "pip.conf", "xdg/pip", "ssl/certs")
FOLDERS = {"MNEMOLOG_DATA_DIR": "/var/lib/mnemolog", "MNEMOLOG_CACHE_DIR": "/var/cache/mnemolog"}
TRY = """
mnemolog up & server=$!
until mnemolog health > /dev/null 2>&1; do kill -0 $server; sleep 0.5; done
mnemolog remember "The layers work." --project image --agent ada
until mnemolog recall "do the layers work?" --project image | grep "The layers work."; do sleep 0.5; done
kill -TERM $server && wait $server
"""


class Stage:
    """A root that instructions change, and the state that they carry along."""

    def __init__(self, base: Path, root: Path, shared: list[str]) -> None:
        subprocess.run(["cp", "--archive", base, root], check=True)
        self.root, self.shared, self.folder, self.user = root, shared, Path("/"), "0"
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin", "HOME": "/root", **FOLDERS}

    def run(self, command: list[str], *, sealed: bool = False) -> None:
        """Run a command in the root; `sealed`: read-only and without a network. Raises CalledProcessError."""
        root, mounts = self.root, [f"mount --rbind /dev {self.root}/dev", f"mount -t proc proc {self.root}/proc"]
        if sealed:
            mounts = [f"mount --bind {root} {root}", f"mount -o remount,bind,ro {root}", *mounts, "ip link set lo up"]
            mounts += [f"mount --bind {root}{path} {root}{path}" for path in FOLDERS.values()]
            mounts += [f"mount -o remount,bind,rw {root}{path}" for path in FOLDERS.values()]
        for path in () if sealed else self.shared:
            mounts.append(f"mkdir -p {root}{path} && mount --bind -o ro {path} {root}{path}")
        enter = f'exec chroot --userspec={self.user}:{self.user} {root} env --chdir={self.folder} "$@"'
        script = " && ".join([*mounts, f"mount -t tmpfs tmp {root}/tmp", enter])
        given = [f"{name}={value}" for name, value in self.environment.items()]
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", *(["--net"] if sealed else [])]
        host = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("PIP_")}
        subprocess.run(["unshare", *namespaces, "sh", "-ec", script, "sh", *given, *command], env=host, check=True)

    def copy(self, words: list[str], stages: dict[str, "Stage"]) -> None:
        """COPY from the source tree, or from another stage."""
        options = dict(word[2:].split("=") for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        origin = stages[options["from"]].root if "from" in options else ROOT
        into = self.root / (self.folder / target).relative_to("/")
        for source in sources:
            if origin == ROOT and f"!{source}" not in (ROOT / ".dockerignore").read_text().splitlines():
                sys.exit(f".dockerignore leaves out {source}, which the Dockerfile copies")
            path, ignored = origin / source.lstrip("/"), shutil.ignore_patterns(*["__pycache__"] * (origin == ROOT))
            if path.is_dir():
                shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copy(path, into / path.name if target.endswith("/") else into)
        if "chown" in options:
            self.run(["chown", "--recursive", options["chown"], f"/{into.relative_to(self.root)}"])

    def apply(self, word: str, rest: str, stages: dict[str, "Stage"]) -> None:
        """Follow an instruction other than FROM. Exits on one that this script does not know."""
        name, _, value = rest.partition("=")
        if word == "RUN":
            self.run(["sh", "-c", rest])
        elif word == "COPY":
            self.copy(rest.split(), stages)
        elif word == "ENV":
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])
        elif word == "WORKDIR":
            self.folder = Path(rest)
            (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            self.user = rest
        elif word not in ("EXPOSE", "CMD"):
            sys.exit(f"this script does not know the instruction {word}")


def main() -> None:
    """Build every stage in a temporary folder, and try the last one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", default="bookworm", help="a Debian release")
    parser.add_argument("--share", action="append", default=[], help="a path of this machine that RUN can read")
    options = parser.parse_args()
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        base, stages, stage = Path(folder) / "base", dict[str, Stage](), None
        targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {options.suite}"]
        packages = "--include=ca-certificates,python3-dev,python3-venv"
        bootstrap = ["debootstrap", "--variant=minbase", packages, options.suite, base]
        bootstrap.append(subprocess.check_output(targets, text=True).split()[0])
        subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL)
        files = [name for name in COPIED if Path("/etc", name).exists()]
        subprocess.run(["cp", "--archive", "--parents", *files, base / "etc"], cwd="/etc", check=True)
        (base / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for line in filter(None, map(str.strip, text.splitlines())):
            started, (word, _, rest) = time.monotonic(), line.partition(" ")
            if word == "FROM":
                name = rest.partition(" AS ")[2] or "image"
                stage = stages[name] = Stage(base, Path(folder) / name, options.share)
            elif stage:
                stage.apply(word, rest, stages)
            print(f"{time.monotonic() - started:6.1f} s  {line[:100]}", flush=True)
        assert stage is not None, "no FROM"
        stage.run(["timeout", "180", "sh", "-ec", TRY], sealed=True)


if __name__ == "__main__":
    main()
