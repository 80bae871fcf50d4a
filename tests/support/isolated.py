"""Runs a command where nothing but loopback can be reached, and records every name that anything in it looks up.

A network of its own with loopback alone, and a resolver on it that knows nobody: so what C code asks is seen, too,
which no hook of Python's would see. Linux, with the right to make namespaces.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_NO_SUCH_NAME = 0x8183


@cache
def unshare() -> tuple[str, ...]:
    """The command that makes the namespaces; raises AssertionError where that is not allowed."""
    assert shutil.which("unshare"), "unshare (of util-linux) is not installed"
    for command in (("unshare", "--mount", "--net"), ("unshare", "--user", "--map-root-user", "--mount", "--net")):
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    raise AssertionError("this user may make no network namespace: run as root, or allow user namespaces")


def looked_up(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> tuple[int, str, set[str]]:
    """Exit code and output of a command, and the names that were looked up while it ran."""
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder, "names")
        names.touch()
        done = subprocess.run(
            [*unshare(), sys.executable, "-m", "tests.support.isolated", str(names), *command], env=dict(environment),
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, set(names.read_text().splitlines())


def main() -> None:
    """Inside the namespaces: prepare them, run the command, end with its exit code."""
    names, *command = sys.argv[1:]
    _switch_on_loopback()
    with tempfile.TemporaryDirectory() as folder:
        _put_in_the_place_of("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", folder)
        _put_in_the_place_of("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", folder)
        resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        resolver.bind(("127.0.0.1", 53))
        threading.Thread(target=_answer, args=(resolver, Path(names)), daemon=True).start()
        sys.exit(subprocess.run(command, check=False).returncode)


def _switch_on_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (flags,) = struct.unpack_from(
            "<H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("<16sH14x", b"lo", 0)), 16
        )
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("<16sH14x", b"lo", flags | _IFF_UP))


def _put_in_the_place_of(path: str, text: str, folder: str) -> None:
    if Path(path).exists():
        replacement = Path(folder, Path(path).name)
        replacement.write_text(text)
        subprocess.run(["mount", "--bind", str(replacement), os.path.realpath(path)], check=True)


def _answer(resolver: socket.socket, names: Path) -> None:
    """Say of every name that there is no such name, and write it down."""
    while True:
        query, whoever = resolver.recvfrom(4096)
        with names.open("a") as file:
            file.write(f"{_name(query[12:])}\n")
        with contextlib.suppress(OSError):
            resolver.sendto(query[:2] + struct.pack(">H", _NO_SUCH_NAME) + query[4:6] + bytes(6) + query[12:], whoever)


def _name(question: bytes) -> str:
    """The name at the beginning of a question of DNS."""
    labels: list[str] = []
    while question and question[0]:
        labels.append(question[1 : 1 + question[0]].decode(errors="replace"))
        question = question[1 + question[0] :]
    return ".".join(labels)


if __name__ == "__main__":
    main()
