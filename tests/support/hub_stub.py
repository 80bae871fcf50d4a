"""A Hugging Face Hub on loopback: what huggingface_hub calls for a private dataset repository, and nothing else.

It keeps every commit, as git does, until history is squashed, and large files until they are deleted for good; so a
test can look for what should be gone.
"""

import base64
import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from thread_server import ThreadServer

TOKEN = "hf_of_these_tests"
REPOSITORY = "ada/memories"


class HubStub(ThreadServer):
    """Runs as a context manager. With `large`, every file is stored as a large one (LFS).

    `status`: answered instead. `squashes`: whether history can be squashed.
    `commits` are the trees of the repository's history, None while it does not exist: path to content, or to the
    SHA-256 of one in `stored`.
    """

    def __init__(self, *, large: bool = False) -> None:
        self.large = large
        self.status = 200
        self.squashes = True
        self.commits: list[dict[str, bytes | str]] | None = None
        self.stored: dict[str, bytes] = {}
        self.private = False
        api, files = "/api/datasets/{owner}/{name}", "/datasets/{owner}/{name}"
        routes = [
            Route("/api/repos/create", self._create, methods=["POST"]),
            Route(f"{api}/preupload/main", self._preupload, methods=["POST"]),
            Route(f"{api}/commit/main", self._commit, methods=["POST"]),
            Route(f"{api}/tree/main", self._tree, methods=["GET"]),
            Route(f"{api}/lfs-files", self._list_stored, methods=["GET"]),
            Route(f"{api}/lfs-files/batch", self._delete_stored, methods=["POST"]),
            Route(f"{api}/super-squash/main", self._squash, methods=["POST"]),
            Route(f"{files}.git/info/lfs/objects/batch", self._lfs_batch, methods=["POST"]),
            Route("/lfs/{oid}", self._lfs_put, methods=["PUT"]),
            Route(f"{files}/resolve/main/{{path:path}}", self._resolve, methods=["GET"]),
        ]
        super().__init__(routes)

    def everything(self) -> bytes:
        """All bytes that the Hub has, also those of its history."""
        trees = [
            b"\n".join(item.encode() + b" " + _bytes(content) for item, content in tree.items())
            for tree in self.commits or []
        ]
        return b"\n".join([*trees, *self.stored.values()])

    def _refused(self, request: Request) -> Response | None:
        if self.status != 200:
            return JSONResponse({"error": "not today"}, self.status)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": "Invalid username or password."}, 401)
        if self.commits is None or f"{request.path_params['owner']}/{request.path_params['name']}" != REPOSITORY:
            return JSONResponse({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        return None

    async def _create(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": "Invalid username or password."}, 401)
        query: dict[str, Any] = await request.json()
        assert (f"{query['organization']}/{query['name']}", query["type"]) == (REPOSITORY, "dataset")
        url = {"url": f"{self.url}/datasets/{REPOSITORY}"}
        if self.commits is not None:
            return JSONResponse({"error": "You already created this dataset repo", **url}, 409)
        self.commits, self.private = [{}], query.get("visibility") == "private" or bool(query.get("private"))
        return JSONResponse(url)

    async def _preupload(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        mode = "lfs" if self.large else "regular"
        files = [
            {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
            for file in (await request.json())["files"]
        ]
        return JSONResponse({"files": files})

    async def _commit(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        assert self.commits is not None
        tree = dict(self.commits[-1])
        for line in (await request.body()).splitlines():
            operation = json.loads(line)
            value: dict[str, Any] = operation["value"]
            match operation["key"]:
                case "file":
                    assert value["encoding"] == "base64"
                    tree[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    assert value["oid"] in self.stored
                    tree[value["path"]] = value["oid"]
                case "deletedFile":
                    del tree[value["path"]]
                case "deletedFolder":
                    tree = {path: content for path, content in tree.items() if not path.startswith(value["path"])}
                case key:
                    assert key == "header", key
        self.commits.append(tree)
        return JSONResponse(
            {
                "commitUrl": f"{self.url}/datasets/{REPOSITORY}/commit/{self._head}",
                "commitOid": self._head,
                "hookOutput": "",
            }
        )

    async def _tree(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        assert self.commits is not None
        results = [self._described(path, content) for path, content in self.commits[-1].items()]
        folders = sorted({path.partition("/")[0] for path in self.commits[-1]})
        return JSONResponse([*({"type": "directory", "path": folder, "oid": "0" * 40} for folder in folders), *results])

    def _described(self, path: str, content: bytes | str) -> dict[str, Any]:
        if isinstance(content, bytes):
            return {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
        size = len(self.stored[content])
        lfs = {"oid": content, "size": size, "pointerSize": 130}
        return {"type": "file", "path": path, "size": size, "oid": "0" * 40, "lfs": lfs}

    async def _list_stored(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        assert self.commits is not None
        names = {content: path for tree in self.commits for path, content in tree.items() if isinstance(content, str)}
        return JSONResponse(
            [
                {
                    "fileOid": f"f{oid}", "filename": names.get(oid, "gone"), "oid": oid,
                    "pushedAt": "2026-01-31T12:00:00.000Z", "ref": "main", "size": len(content),
                }
                for oid, content in self.stored.items()
            ]
        )  # fmt: skip

    async def _delete_stored(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        for file_oid in (await request.json())["deletions"]["sha"]:
            del self.stored[file_oid[1:]]
        return JSONResponse({})

    async def _squash(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        if not self.squashes:
            return JSONResponse({"error": "not today"}, 500)
        assert self.commits is not None
        del self.commits[:-1]
        return JSONResponse({})

    async def _lfs_batch(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        objects = [
            {**item, "actions": {"upload": {"href": f"{self.url}/lfs/{item['oid']}"}}}
            for item in (await request.json())["objects"]
        ]
        return JSONResponse({"transfer": "basic", "objects": objects})

    async def _lfs_put(self, request: Request) -> Response:
        body = await request.body()
        assert hashlib.sha256(body).hexdigest() == request.path_params["oid"]
        self.stored[request.path_params["oid"]] = body
        return Response()

    async def _resolve(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        assert self.commits is not None
        content = self.commits[-1].get(request.path_params["path"])
        if content is None:
            return JSONResponse({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        body = self.stored[content] if isinstance(content, str) else content
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": self._head}
        return Response(body, media_type="application/octet-stream", headers=headers)

    @property
    def _head(self) -> str:
        return f"{len(self.commits or []):040x}"


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
