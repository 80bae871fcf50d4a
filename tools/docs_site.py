"""Configuration of MkDocs beside `mkdocs.yml`: pages outside `docs/`, files that pages link to, the decisions, OpenAPI.

Links are written for readers of the sources. Here each is led to where the site has the same thing.
"""

import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from starlette.responses import Response
from starlette.routing import Route

from api.http.openapi import document
from api.http.openapi import page as openapi_page
from api.native.catalog import ABOUT, endpoints

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "index.md": "README.md",
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "skill.md": "skills/mnemolog/SKILL.md",
}
"""Pages of the site, and the files they are made of."""
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> None:
    """Put the decisions where the navigation has a place for them."""
    decisions = [f"decisions/{path.name}" for path in sorted((ROOT / "docs/decisions").glob("*.md"))]
    entries: list[Any] = config.nav or []
    config.nav = [
        {**entry, "Decisions": ["decisions/index.md", *decisions]} if "Decisions" in entry else entry
        for entry in entries
    ]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages from elsewhere, a list of the decisions, and the files that a page links to."""
    for uri, source in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "decisions/index.md", content=_decisions()))
    for uri, content in _openapi().items():
        files.append(File.generated(config, uri, content=content))
    for page in list(files.documentation_pages()):
        for target in map(str, _targets(page)):
            if _uri(target) is None and (ROOT / target).is_file():
                uri = _copied(target)
                if files.get_file_from_path(uri) is None:
                    files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links led to where the site has what they lead to. The site also has it as Markdown."""
    here = PurePosixPath(page.file.src_uri).parent

    def led(found: re.Match[str]) -> str:
        target = _target(page.file, found[1])
        return os.path.relpath(_uri(target) or _copied(target), here)

    copy = Path(config.site_dir, page.file.src_uri)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(LINK.sub(led, page.file.content_string))
    return LINK.sub(led, markdown)


def _targets(page: File) -> list[str]:
    return [_target(page, link) for link in LINK.findall(page.content_string)]


def _target(page: File, link: str) -> str:
    """The path in the source tree that a link of a page leads to."""
    source = OUTSIDE.get(page.src_uri, f"docs/{page.src_uri}")
    return os.path.normpath(f"{PurePosixPath(source).parent}/{link}")


def _uri(target: str) -> str | None:
    """The page of the site that a file of the source tree is, if it is one."""
    if target == "docs/decisions":
        return "decisions/index.md"
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return next((uri for uri, source in OUTSIDE.items() if source == target), None)


def _copied(target: str) -> str:
    """Where the site has a copy of a file that is no page; as text, which browsers show."""
    return f"source/{target}.txt"


def _decisions() -> str:
    """A page with the titles of all decisions."""
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = [(path, path.read_text().partition("\n")[0].removeprefix("# ")) for path in pages]
    return "# Decisions\n\nWhat was decided, and why; a later one may supersede it.\n\n" + "".join(
        f"- [{title}]({path.name})\n" for path, title in titles
    )


def _openapi() -> dict[str, str]:
    """What the server answers as its OpenAPI document, as a file, as its own page, and as a list of routes."""
    described = document(ABOUT, endpoints(Route("/mcp", Response())))
    operations = [
        f"| `{method.upper()} {path}` | {operation['summary']} |"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    listed = """# OpenAPI

[openapi.json](openapi.json) is what this release answers at `/openapi.json` (OpenAPI 3.1), made from what its routes
declare; [openapi.html](openapi.html) is what it answers at `/docs`. [HTTP API](api.md) says it in words.

| route | what it does |
|---|---|
"""
    return {
        "openapi.json": json.dumps(described),
        "openapi.html": openapi_page(described),
        "openapi.md": listed + "\n".join(operations),
    }
