"""The documentation as a site: it is built without a warning, and its pages load nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = {"src", "srcset", "poster", "data"}
DECISIONS = {path.name[:4] for path in (ROOT / "docs/decisions").glob("*.md")}
LINKS_TO_READ = {"canonical", "next", "prev"}
"""Kinds of `<link>` that a browser does not follow by itself."""
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


class Loads(HTMLParser):
    """The addresses on other hosts that a page has a browser load, and whether it has a diagram to be drawn there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = IN_STYLES.findall(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        followed = tag == "link" and values.get("rel") not in LINKS_TO_READ
        self.found += [
            value
            for name, value in values.items()
            if (name in LOADED or (followed and name == "href")) and ELSEWHERE.match(value)
        ]
        if "mermaid" in values.get("class", "").split():
            self.found.append("mermaid")  # the theme fetches what draws it


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site that `make docs` builds."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    return folder


def test_the_site_has_every_page(site: Path):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {path.relative_to(site) for path in site.rglob("*.html")} >= {Path("index.html"), *pages}


def test_the_site_has_the_openapi_document_of_this_source_tree(site: Path):
    paths = json.loads((site / "openapi.json").read_text())["paths"]
    page = (site / "openapi.html").read_text()
    assert "/v1/recall" in paths
    assert [path for path in paths if path not in page] == []


def test_llms_txt_lists_every_page_once_by_its_heading(site: Path):
    """Except the decisions, which have a page of their own. The form is that of llmstxt.org."""
    text = (site / "llms.txt").read_text()
    links = re.findall(r"^- \[([^\]]+)\]\((\S+)\): \S", text, re.MULTILINE)
    pages = {str(path.relative_to(site)): path for path in site.rglob("*.md") if path.name[:4] not in DECISIONS}
    headings = {name: re.search(r"^# (.+)$", path.read_text(), re.MULTILINE) for name, path in pages.items()}
    assert sorted(links) == sorted((heading[1] if heading else "", name) for name, heading in headings.items())
    assert re.match(r"# mnemolog\n\n> .+\n\n", text)
    assert set(re.findall(r"^(#+) ", text, re.MULTILINE)) == {"#", "##"}


def test_pages_are_also_there_as_markdown_whose_links_lead_somewhere(site: Path):
    assert (site / "skill.md").read_text().startswith("---\nname: mnemolog\ndescription: ")
    missing = [
        (path.relative_to(site), link)
        for path in site.rglob("*.md")
        for link in re.findall(r"\]\(([^)\s:#]+)[)#]", path.read_text())
        if not (path.parent / link).exists()
    ]
    assert missing == []


def test_pages_load_nothing_from_elsewhere(site: Path):
    """Styles and pictures neither. The scripts of the theme, which do for what no page has, are not looked into."""
    files = [path for kind in ("html", "css", "svg") for path in site.rglob(f"*.{kind}")]
    assert {str(path.relative_to(site)): found for path in files if (found := Loads(path.read_text()).found)} == {}


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://example.org/a.js"></script>',
        '<img src="//example.org/a.png">',
        '<link rel="preconnect" href="https://fonts.example.org">',
        "<style>@import 'https://example.org/a.css'</style>",
        '<p style="background: url(https://example.org/a.png)">',
        '<pre class="mermaid"><code>',
    ],
)
def test_a_page_that_loads_from_elsewhere_is_found(page: str):
    assert Loads(page).found


def test_a_link_that_a_reader_may_follow_is_no_load():
    assert Loads('<a href="https://example.org">a</a><link rel="canonical" href="https://example.org">').found == []
