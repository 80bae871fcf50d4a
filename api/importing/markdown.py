"""Folders of Markdown: CLAUDE.md, MEMORY.md, and notes such as basic-memory's. Pure except for reading the files.

Each section of a file is a memory; of a file for agents, such as CLAUDE.md, each item of a list is a rule. In a
section, `- [category] text #tag` is a memory of its own, `- type [[Note]]` relates two notes, and any other `[[Note]]`
is a link. Fenced code blocks are ignored.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Record,
    Step,
    metadata_of,
    names,
    needed,
    related,
    text,
    when,
    when_given,
)
from api.importing.source import ImportRequest, Source, Unusable, modified, of_rows
from ingest.commands.decide import Remember
from ingest.errors import CommandRejected
from ingest.secrets.scrub import repair_text
from mnemolog_client.front_matter import front_matter

SYSTEM = "markdown"
SECTION, OBSERVATION, RELATION, FILE = "section", "observation", "relation", "file"
SUFFIXES = (".md", ".markdown")
INSTRUCTIONS = ("CLAUDE", "CLAUDE.local", "AGENTS", "GEMINI")
"""Files for agents: their sections are tagged, and the items of their lists are rules."""
CURSOR_RULES = ".cursorrules"
SECTION_CHARS = 4_000
"""A longer section becomes several memories, split between paragraphs."""
MAX_FILE_BYTES = 8 << 20
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
_OBSERVATION = re.compile(r"\s*[-*+] \[([^\[\]()]+)\][ \t]+(.+)")
_ITEM = re.compile(r"\s*[-*+] (?!\[)(\S.*)")
_NO_CATEGORY = re.compile(r"[xX]|[^\w]|\d{1,3}:\d\d.*")
"""Brackets before a task, or around a time."""
_RELATION = re.compile(r"""\s*[-*+] (?:"([^"]+)"|'([^']+)'|([^\s\["']+)) \[\[([^\[\]]+)\]\][ \t]*(\(.*\))?[ \t]*""")
_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")
_TAG = re.compile(r"(?:^|\s)#([^\s#]+)")


def mapped(row: ImportRow, project: str) -> Mapped:
    """The memory or the relation for a row; raises CommandRejected for an unreadable file."""
    record = row.value
    lost = list[str](record.get("lost", ()))
    if reason := text(record, "unreadable"):
        raise CommandRejected(reason)
    at, title = _time(record, lost), needed(record, "title")
    if row.kind == RELATION:
        ends = title, needed(record, "relation"), needed(record, "target")
        steps = related(project, *ends, at, lost, context=text(record, "context"))
        return Mapped(steps[1:] if record["link"] else steps, lost)  # the words of a link are in a section
    command = Remember(
        project=project,
        content=needed(record, "text"),
        title=" > ".join([title, *record["headings"]])[:NAME_CHARS],
        tags=names(record, "tags", lost),
        concepts=[title[:NAME_CHARS]],
        files=[record["path"][:NAME_CHARS]],
        metadata=record["metadata"],
        memory_type="rule" if record.get("is_rule") else "semantic",
        keep_duplicates=True,
    )
    key = "\0".join((row.kind, project, record["path"], command.title, command.content))
    return Mapped([Step(command, key, at)], lost)


def _time(record: Record, lost: list[str]) -> datetime:
    """When a row was written, according to its front matter, otherwise to its file."""
    for field in ("modified", "created"):
        try:
            if at := when_given(record, field):
                return at
        except CommandRejected as error:
            lost.append(f"`{field}` of the front matter {error}")
    return when(record, "changed")


def rows_of(path: str, content: str, changed: object) -> Iterator[ImportRow]:
    """The rows of a file. What its front matter gives to each row is bounded here: a file has many rows."""
    front, body = front_matter(content.replace("\r\n", "\n"))
    stem = Path(path).stem
    is_for_agents = stem in (*INSTRUCTIONS, CURSOR_RULES)
    tagged: list[str] | str = front.get("tags", [])
    tagged = tagged.split(",") if isinstance(tagged, str) else tagged
    tags = [tag.strip().removeprefix("#") for tag in tagged if tag.strip()] + ["instructions"] * is_for_agents
    noted = {name: value for name, value in front.items() if name not in ("title", "tags", "modified")}
    lost = list[str]()
    tags, metadata = names({"tags": tags}, "tags", lost), metadata_of(noted, lost)
    common: Record = {"path": path, "title": text(front, "title") or stem, "changed": changed}
    common |= {"metadata": metadata, "lost": lost}
    common |= {name: front[name] for name in ("created", "modified") if text(front, name)}
    links = dict[str, None]()
    for number, (headings, section) in enumerate(sections(body)):
        remaining = list[str]()
        headings = [heading for heading in headings if heading != common["title"]]
        for line, is_text in section:
            stated = _RELATION.fullmatch(line) if is_text else None
            links |= dict.fromkeys(map(_target, _LINK.findall(line)) if is_text and not stated else ())
            if is_text and (seen := _OBSERVATION.fullmatch(line)) and not _NO_CATEGORY.fullmatch(seen[1]):
                own = [seen[1].strip(), *tags, *_TAG.findall(seen[2])]
                value = {**common, "headings": [], "text": seen[2].strip(), "tags": own}
                yield ImportRow(OBSERVATION, f"{path}: {seen[2][:60]}", value)
            elif is_text and is_for_agents and not stated and (item := _ITEM.fullmatch(line)):
                value = {**common, "headings": headings, "text": item[1].strip(), "tags": tags, "is_rule": True}
                yield ImportRow(OBSERVATION, f"{path}: {item[1][:60]}", value)
            elif stated:
                value = {"relation": stated[1] or stated[2] or stated[3], "target": _target(stated[4]), "link": False}
                yield ImportRow(RELATION, f"{path}: {line.strip()[:60]}", {**common, **value, "context": stated[5]})
            else:
                remaining.append(line)
        for part in parts("\n".join(remaining).strip()):
            value = {**common, "headings": headings, "text": part, "tags": tags}
            yield ImportRow(SECTION, f"{path} section {number}", value)
    for target in filter(None, links):
        value = {"relation": "links_to", "target": target, "link": True}
        yield ImportRow(RELATION, f"{path}: {target[:60]}", {**common, **value})


def sections(body: str) -> Iterator[tuple[list[str], list[tuple[str, bool]]]]:
    """The headings above each section and its lines, each with whether it is text rather than code."""
    headings, section, fence = list[tuple[int, str]](), list[tuple[str, bool]](), ""
    for line in body.splitlines():
        marks = _FENCE.match(line)
        if fence or marks:
            section.append((line, False))
            closes = marks is not None and fence != "" and marks[1].startswith(fence)
            fence = "" if closes else fence or (marks[1] if marks else "")
        elif heading := _HEADING.fullmatch(line):
            yield [name for _, name in headings], section
            level = len(heading[1])
            headings, section = (
                [*(above for above in headings if above[0] < level), (level, heading[2].strip(" \t#"))],
                [],
            )
        else:
            section.append((line, True))
    yield [name for _, name in headings], section


def _target(link: str) -> str:
    return link.partition("|")[0].partition("#")[0].strip()


def parts(content: str) -> Iterator[str]:
    """A text split between paragraphs."""
    part = ""
    for paragraph in content.split("\n\n"):
        if part.strip() and len(part) + len(paragraph) > SECTION_CHARS:
            yield part.strip()
            part = ""
        part += f"{paragraph}\n\n"
    if part.strip():
        yield part.strip()


def open_source(request: ImportRequest) -> Source:
    """The source of a file, or of all files below a folder. Raises Unusable."""
    location = Path(request.required_location("a Markdown file, or a folder of them")).absolute()
    if not (location.is_dir() or (location.is_file() and _is_read(location))):
        raise Unusable(f"{location} is neither a folder nor a file {' or '.join(SUFFIXES)}")
    root = location if location.is_dir() else location.parent
    others, errors, rows = Counter[str](), list[OSError](), list[ImportRow]()
    for file in _files(location, others, errors) if location.is_dir() else [location]:
        name, content, changed = repair_text(file.relative_to(root).as_posix()), "", None
        try:
            fits, reason = file.stat().st_size <= MAX_FILE_BYTES, "the file has no text, or over 8 MiB"
            content = file.read_text("utf-8-sig", "replace") if fits and file.is_file() else ""
            changed = modified(file)
        except (OSError, Unusable) as error:  # such as a link to nothing
            reason = repair_text(f"the file cannot be read: {getattr(error, 'strerror', error)}")
        rows += list(rows_of(name, content, changed)) or [ImportRow(FILE, name, {"unreadable": reason})]
    for error in errors:
        unreadable = {"unreadable": f"the folder cannot be read: {error.strerror}"}
        rows.append(ImportRow(FILE, repair_text(str(error.filename)), unreadable))
    if not rows:
        raise Unusable(f"{location} contains no readable Markdown file ({', '.join(SUFFIXES)})")
    rows.sort(key=lambda row: (SECTION, OBSERVATION, RELATION, FILE).index(row.kind))
    folder = (root.resolve() if root.name == ".." else root).name
    project = request.project_or(repair_text(folder))
    source = of_rows(SYSTEM, rows, lambda row: mapped(row, project), project)
    if others:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in others.most_common(10))
        source.notes.append(f"left out because it is not Markdown: {repair_text(listed)}")
    return source


def _is_read(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES or file.name == CURSOR_RULES


def _files(folder: Path, others: Counter[str], errors: list[OSError]) -> Iterator[Path]:
    """The Markdown files below a folder, by path; `others` counts other files, `errors` has unreadable folders."""
    for parent, folders, files in os.walk(folder, onerror=errors.append):
        hidden = [name for name in folders if name == "node_modules" or (name.startswith(".") and name != ".claude")]
        others.update(f"folder {name}" for name in hidden)
        folders[:] = sorted(name for name in folders if name not in hidden)
        for name in sorted(files):
            file = Path(parent, name)
            if _is_read(file):
                yield file
            else:
                others[f"{file.suffix or name} file"] += 1
