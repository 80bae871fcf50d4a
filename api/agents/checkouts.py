"""The project of a folder: which checkout it is in, and the name of its git remote.

Hooks, the CLI and the importers of transcripts name projects here. Hooks load this file on its own, so it imports only
modules of the standard library that load in a few milliseconds.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHOSEN = "MNEMOLOG_PROJECT"
"""The environment variable that names the project for every folder."""
USUAL_HOST = "github.com"
"""Projects of other hosts have the host in their name: two hosts can have the same OWNER/NAME."""


def checkout_of(folder: str) -> tuple[str, str]:
    """The folder of the main checkout and its git folder; outside of git, the folder itself and an empty text.

    A worktree (`.git` is a file, and its git folder names a common one) belongs to the main checkout, or to the bare
    repository, or to the folder of a hidden one (`.bare`). A submodule (a file, no common folder) is its own checkout.
    A symbolic link into a checkout belongs to it.
    """
    top = folder = os.path.realpath(folder)
    while not os.path.exists(os.path.join(top, ".git")):
        above = os.path.dirname(top)
        if above == top:
            return folder, ""
        top = above
    git = os.path.join(top, ".git")
    if pointer := content(git).strip().removeprefix("gitdir:").strip():
        git = os.path.join(top, pointer)
        if common := content(os.path.join(git, "commondir")).strip():
            git = os.path.normpath(os.path.join(git, common))
            top = os.path.dirname(git) if os.path.basename(git).startswith(".") else git.removesuffix(".git")
    return top, git


def remote_names(git: str) -> list[str]:
    """The name of the remote `origin`, else of the first one, in lower case, as hosts compare names: OWNER/NAME (with
    GitLab's subgroups), after HOST/ unless that is GitHub. Then OWNER/NAME as it is written, which earlier releases
    used. Empty without a remote."""
    urls: dict[str, str] = {}
    section = ""
    for line in content(os.path.join(git, "config")).splitlines() if git else ():
        line = line.strip()
        if line.startswith("["):
            section, _, line = line.partition("]")
            line = line.strip()
        key, _, url = line.partition("=")
        if section.lower().startswith("[remote ") and key.strip().lower() == "url":
            urls.setdefault(section[8:].strip(' "'), url.strip().strip('"'))
    url = urls.get("origin") or next(iter(urls.values()), "")
    scheme, separator, rest = url.partition("://")
    if separator:
        host, _, path = rest.partition("/") if scheme != "file" else ("", "", "")
    else:  # HOST:PATH, as in scp; a host of one letter is a drive
        host, _, path = url.partition(":")
        path = path if len(host) > 1 and "/" not in host else ""
    host = host.rpartition("@")[2].partition(":")[0].lower()
    path = path.strip("/").removesuffix(".git")
    if "/" not in path:
        return []
    is_usual = "." not in host or host in (USUAL_HOST, f"ssh.{USUAL_HOST}")  # without a dot: an alias of SSH's settings
    return [path.lower() if is_usual else f"{host}/{path.lower()}", path]


def project_of(folder: str, environ: Mapping[str, str]) -> str:
    """The project of a folder: `MNEMOLOG_PROJECT` if it is set, else what the hooks chose for its checkout (a file in a
    spool folder), else the name of its remote or its checkout; empty outside of git."""
    if CHOSEN in environ:
        return environ[CHOSEN]
    top, git = checkout_of(folder)
    spools = spools_of(environ)
    stored = (content(stored_choice(os.path.join(spools, port), top)) for port in listing(spools))
    if choice := next(filter(None, stored), ""):
        return choice
    return next(iter(remote_names(git)), os.path.basename(top)) if git else ""


def hook_project(
    folders_of: Callable[[str], list[str] | None] | None, spool: str, folder: str, environ: Mapping[str, str]
) -> tuple[str, str]:
    """The project of a folder for a hook, and a one-time message for the user, if any.

    Earlier releases named projects after folders, or as the remote is written. A checkout that has sessions under such
    a name keeps it, so that their records are still found. `folders_of` asks the server once, at session start, for the
    folders of a project's sessions (None if it does not answer); a file in the spool folder stores the choice. The
    message warns if another folder shares the project.
    """
    if chosen := environ.get(CHOSEN):
        return chosen, ""
    top, git = checkout_of(folder)
    folder_name = os.path.basename(top) or "unknown"
    names = [*remote_names(git), folder_name]
    path = stored_choice(spool, top)
    if stored := content(path):
        return stored, ""
    if folders_of is None:
        return names[0], ""
    used = {former: folders_of(former) for former in dict.fromkeys(names[1:] or names)}
    if None in used.values():  # ask again at the next session start
        return names[0], ""
    others = {former: [folder for folder in used[former] or () if checkout_of(folder)[0] != top] for former in used}
    name = next((former for former in used if len(others[former]) < len(used[former] or ())), names[0])
    elsewhere = next(iter(others.get(folder_name, ())), "")
    _store(path, name)
    if name != folder_name:
        return name, ""
    message = f"mnemolog records {top} as project {name!r}, the name of the folder. Set {CHOSEN} to change it."
    if elsewhere:
        return name, f"{message} Another folder, {elsewhere}, uses the same project."
    if name == names[0]:
        os.write(2, f"mnemolog hook: {message}\n".encode("utf-8", "replace"))
    return name, ""


def _store(path: str, name: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(name.encode("utf-8", "replace"))
    except OSError as error:
        os.write(2, f"mnemolog hook: {path}: {error}\n".encode("utf-8", "replace"))


def spools_of(environ: Mapping[str, str]) -> str:
    """The folder with a spool folder for each server port, as in `ingest.platform.settings`."""
    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "mnemolog", "spool")


def stored_choice(spool: str, top: str) -> str:
    """The file with the project that the hooks chose for a checkout."""
    return os.path.join(spool, "projects", file_key(os.path.realpath(top)))


def content(path: str) -> str:
    """The text of a small file; empty without one."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""


def file_key(text: str) -> str:
    """A short file name. (hashlib takes as long to load as the rest of the hook.)"""
    try:
        from _blake2 import blake2b
    except ImportError:  # another Python
        from hashlib import blake2b
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def listing(folder: str) -> list[str]:
    """The sorted names of a folder's files; empty without one that can be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def complain(text: str) -> None:
    """Report an error on stderr, which hosts show in their logs."""
    os.write(2, f"mnemolog hook: {text}\n".encode("utf-8", "replace"))
