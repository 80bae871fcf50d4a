"""How far an import has come, in a small file of its own, so that an interrupted one goes on where it was."""

import os
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from api.importing.report import ImportReport
from api.importing.source import Cursor, Unusable


class ImportState(Struct):
    """An import from one place to one server; `cursor` is after the last row that the server acknowledged."""

    system: str
    location: str
    server: str
    fingerprint: str = ""
    cursor: Cursor = field(default_factory=list[str | int])
    report: ImportReport = field(default_factory=ImportReport)
    finished_at: datetime | None = None


class StateFile:
    """Where the state of one import is kept. One that cannot be read counts as none: importing again is safe."""

    def __init__(self, system: str, location: str, server: str, options: str, folder: Path) -> None:
        digest = blake2b("\0".join((system, location, server, options)).encode(), digest_size=16).hexdigest()
        self.path = folder / f"{digest}.json"

    def read(self) -> ImportState | None:
        """The state that was saved last; None when there is none."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ImportState)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def save(self, state: ImportState) -> None:
        """Put a state in the place of the last one, whole; raises Unusable."""
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(state))
            part.replace(self.path)
        except OSError as error:
            raise Unusable(f"the state of the import cannot be saved: {error}; set XDG_STATE_HOME") from None


def state_folder() -> Path:
    """Where the states of imports are."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "mnemolog" / "imports"
