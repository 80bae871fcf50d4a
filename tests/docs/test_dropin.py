"""docs/dropin.md says which routes of agentmemory are missing, as they are."""

import re
from pathlib import Path

from api.dialects.agentmemory.app import ENDPOINTS

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests/contracts/agentmemory/routes-0.9.29.txt"
"""What the published package registers: a method and a path a line."""


def test_the_page_lists_exactly_the_routes_that_are_missing():
    published = set(PUBLISHED.read_text().splitlines())
    here = {f"{one.method} " + re.sub(r"{(\w+)(:path)?}", r":\1", one.path) for one in ENDPOINTS}
    missing = published - here
    page = (ROOT / "docs/dropin.md").read_text()
    section = page.partition("### Routes that are missing\n")[2].partition("\n### ")[0]
    listed = re.findall(r"`([A-Z]+) ([\w/:-]+)`", section)
    assert {f"{method} /agentmemory/{path}" for method, path in listed} == missing
    assert len(listed) == len(missing), "a route is listed twice"
    assert f"Of the {len(published)} routes of agentmemory 0.9.29, {len(missing)} are missing" in section
