"""A memory in one file, over HTTP, with a fault to choose: `python simple_memory.py PORT FOLDER FAULT`.

Without a fault it keeps every promise of the conformance kit. It writes its documents, made from its log, after every
change, and reads them at its start.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FAULTS = {
    "loses": "acknowledged writes survive kill -9",
    "repeats": "a repeat is stored once",
    "races": "concurrent writers lose nothing",
    "finds deleted": "deletion leaves nothing",
    "trusts its store": "rebuild removes a planted document",
    "shows all": "readers see only theirs",
}
"""Each fault, and the check of the kit that it fails."""
ADAPTER = {
    "name": "simple",
    "copy": '"text": "{text}"',
    "plant": "sed -i s/{text}/{planted}/ {folder}/documents",
    "rebuild": "curl -sf -X POST {url}/rebuild",
    "ready": {"request": "GET /list"},
    "write": {"request": "POST /write", "body": {"text": "{text}", "id": "{id}"}, "answer": "id"},
    "private": {"request": "POST /write", "body": {"text": "{text}", "id": "{id}", "only": "{agent}"}, "answer": "id"},
    "delete": {"request": "DELETE /{key}"},
    "get": {"request": "GET /{key}?{agent}"},
    "search": {"request": "GET /search?{agent}", "body": {"query": "{query}"}},
    "list": {"request": "GET /list?{agent}"},
}
Documents = dict[str, dict[str, str]]


class Store:
    def __init__(self, folder: Path, fault: str) -> None:
        self.fault, self._folder, self._lock = fault, folder, threading.RLock()
        self.documents: Documents = {}
        self.deleted: Documents = {}
        if (folder / "documents").exists():
            self.documents = json.loads((folder / "documents").read_text())

    def append(self, event: dict[str, str]) -> None:
        if self.fault == "races":
            documents = dict(self.documents)
            time.sleep(0.001)
            self.documents = {**documents, event["id"]: event}
            return
        with self._lock:
            if self.fault == "repeats" and "text" in event:
                event["id"] += str(len(self.documents))
            if self.fault != "loses":
                with (self._folder / "log").open("a") as log:
                    log.write(json.dumps(event) + "\n")
            self.apply(event)
            self.save()

    def apply(self, event: dict[str, str]) -> None:
        if "text" in event:
            self.documents.setdefault(event["id"], event)
        elif event["id"] in self.documents:
            self.deleted[event["id"]] = self.documents.pop(event["id"])

    def save(self) -> None:
        if self.fault != "loses":
            (self._folder / "new").write_text(json.dumps(self.documents))
            (self._folder / "new").replace(self._folder / "documents")

    def rebuild(self) -> None:
        if self.fault == "trusts its store":
            return
        with self._lock:
            self.documents = {}
            for line in (self._folder / "log").read_text().splitlines():
                self.apply(json.loads(line))
            self.save()

    def readable(self, agent: str) -> Documents:
        everything = self.fault == "shows all"
        return {id: it for id, it in self.documents.items() if everything or it.get("only", agent) == agent}


class Handler(BaseHTTPRequestHandler):
    store: Store

    def do_POST(self) -> None:
        if self.path == "/rebuild":
            return self.answer(self.store.rebuild())
        event = self.body()
        self.store.append(event)
        return self.answer(event)

    def do_DELETE(self) -> None:
        self.answer(self.store.append({"id": self.path[1:]}))

    def do_GET(self) -> None:
        name, _, agent = self.path[1:].partition("?")
        readable = self.store.readable(agent)
        if name == "search":
            if self.store.fault == "finds deleted":
                readable |= self.store.deleted
            query = self.body()["query"]
            self.answer([it for it in readable.values() if query in it["text"]])
        else:
            self.answer([*readable.values()] if name == "list" else readable.get(name))

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, value: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    port, folder, fault = sys.argv[1:]
    Handler.store = Store(Path(folder), fault)
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
