"""How fast is the viewer? First paint, each tab, a graph of 2,000 nodes while it is dragged, how soon a write is shown.

    python -m benchmarks.viewer [--quick]

Starts a server of its own with three weeks of a fleet's work (`tests/support/fleet_work.py`), and a headless Chromium
without a GPU, which draws on the processor. Loads are with an empty cache. A tab is there when it shows data, counted
from the change of the address. While the graph is dragged, a frame is the time between two callbacks of
`requestAnimationFrame`. A write is shown when its text can be read, counted from its acknowledgement; it is written by
the page itself, with nothing else going on.
"""

import argparse
import asyncio
import json
import math
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvloop

from benchmarks.driving import Pool, percentile, projected
from benchmarks.stack import Stack
from tests.support.chromium import CHROMIUM, Page, browser_page
from tests.support.fleet_work import LONG_SESSION, PROJECTS, commands, export

NODES = 2_000
MOVES_PER_S = 60
SHOP = PROJECTS[0].name
TABS = {
    "memories": f"/memories?project={SHOP}",
    "sessions": "/sessions",
    "session of 3,000": f"/sessions/{LONG_SESSION}?project={SHOP}",
    "dashboard": "/dashboard",
    "lessons": f"/lessons?project={SHOP}",
    "slots": f"/slots?project={SHOP}",
    "actions": f"/actions?project={SHOP}",
    "timeline": f"/timeline?project={SHOP}",
    "replay of 3,000": f"/replay/{LONG_SESSION}?project={SHOP}",
    "graph": f"/graph?project={SHOP}",
    "pipeline": "/pipeline",
    "search": f"/search?project={SHOP}&q=why+does+the+ledger+round+differently",
}
LOADED = """(async () => {
  const entry = () => performance.getEntriesByName('first-contentful-paint')[0];
  while (!entry()) await new Promise((resolve) => { setTimeout(resolve, 5); });
  const files = [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]
    .filter((one) => new URL(one.name).pathname.startsWith('/viewer'));
  return [entry().startTime, files.length, files.reduce((sum, one) => sum + one.transferSize, 0)];
})()"""
TURNED = """(async () => {
  const content = document.getElementById('content');
  const began = performance.now();
  location.hash = %s;
  await new Promise((resolve) => { addEventListener('hashchange', resolve, { once: true }); });
  while (content.hasAttribute('aria-busy')) await new Promise(requestAnimationFrame);
  return performance.now() - began;
})()"""
GROWN = """(async () => {
  const count = () => Number(document.querySelector('main > div > p[role=status]').textContent
    .match(/^[\\d,]+/)[0].replace(',', ''));
  const canvas = document.querySelector('canvas');
  const key = (key) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
  for (let looked = 0; looked < 4000 && count() < %d; looked += 1) {
    key('n');
    const kind = document.querySelector('.chosen-node .tag')?.textContent;
    if (kind !== 'concept' && kind !== 'project') continue;
    const button = document.querySelector('.chosen-node button');
    button.click();
    while (button.disabled) await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  return count();
})()"""
WATCH = """(() => {
  window.frames_ = [];
  let last = performance.now();
  const frame = (now) => { window.frames_.push(now - last); last = now; window.watch_ = requestAnimationFrame(frame); };
  window.watch_ = requestAnimationFrame((now) => { last = now; window.watch_ = requestAnimationFrame(frame); });
})()"""
WATCHED = "(cancelAnimationFrame(window.watch_), window.frames_)"
SHOWN = """(async () => {
  const text = %s;
  const answer = await fetch('/v1/memories', { method: 'POST', body: JSON.stringify({ project: %s, content: text,
    keep_duplicates: true }) });
  const acknowledged = performance.now();
  await answer.json();
  while (!document.body.textContent.includes(text)) await new Promise((resolve) => { setTimeout(resolve, 5); });
  return performance.now() - acknowledged;
})()"""


class Frames(NamedTuple):
    """Milliseconds between frames."""

    times: Sequence[float]

    def figures(self, name: str) -> dict[str, float]:
        """The median, the 95th percentile, and frames a second over all of them."""
        return {
            f"{name}_frame_p50_ms": round(percentile(self.times, 0.5), 1),
            f"{name}_frame_p95_ms": round(percentile(self.times, 0.95), 1),
            f"{name}_fps": round(1000 * len(self.times) / sum(self.times), 1),
        }


async def shown(page: Page, url: str, address: str) -> None:
    """Load an address from nothing, and wait until its tab is there."""
    await page.go("about:blank")
    await page.go(f"{url}/viewer#{address}")
    await page.until("document.querySelector('main h1') && !document.querySelector('main[aria-busy]')")


async def loads(page: Page, url: str, rounds: int) -> dict[str, float]:
    """First contentful paint with an empty cache, and what is loaded for it."""
    await page.call("Network.setCacheDisabled", cacheDisabled=True)
    told: list[list[float]] = []
    for _ in range(rounds):
        await shown(page, url, f"/search?project={SHOP}")
        told.append(await page.value(LOADED))
    await page.call("Network.setCacheDisabled", cacheDisabled=False)
    paints = [paint for paint, _, _ in told]
    return {
        "first_paint_p50_ms": round(percentile(paints, 0.5)),
        "first_paint_max_ms": round(max(paints)),
        "files": told[-1][1],
        "kib": round(told[-1][2] / 1024),
    }


async def tabs(page: Page, url: str, rounds: int) -> dict[str, float]:
    """Milliseconds until each tab shows its data, the median of some rounds."""
    await shown(page, url, f"/search?project={SHOP}")
    times: dict[str, list[float]] = {name: [] for name in TABS}
    for _ in range(rounds):
        for name, address in TABS.items():
            times[name].append(await page.value(TURNED % json.dumps(f"#{address}")))
    return {f"tab_{name.replace(' ', '_').replace(',', '')}_ms": round(percentile(times[name], 0.5)) for name in TABS}


async def dragged(page: Page, url: str, seconds: float) -> dict[str, float]:
    """Frames while one of 2,000 nodes is dragged in circles, and while the ground is."""
    await shown(page, url, "/graph")
    nodes = await page.value(GROWN % NODES)
    box: dict[str, float] = await page.value(
        "JSON.parse(JSON.stringify(document.querySelector('canvas').getBoundingClientRect()))"
    )
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    corner = (box["x"] + 12, box["y"] + 12)
    told: dict[str, float] = {"nodes": nodes}
    for name, start in (("drag_node", middle), ("drag_ground", corner)):
        told |= (await _drag(page, start, seconds)).figures(name)
    return told


async def _drag(page: Page, start: tuple[float, float], seconds: float) -> Frames:
    x, y = start
    await page.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    await page.value(WATCH)
    began, moves = time.perf_counter(), round(seconds * MOVES_PER_S)
    for move in range(moves):
        await asyncio.sleep(max(0.0, began + move / MOVES_PER_S - time.perf_counter()))
        angle = move / 20
        at = {"x": x + 120 * (1 - math.cos(angle)), "y": y + 120 * math.sin(angle / 2) ** 2}
        await page.call("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1, **at)
    frames = await page.value(WATCHED)
    await page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)
    return Frames(frames)


async def live(page: Page, url: str, writes: int) -> dict[str, float]:
    """Milliseconds from the acknowledgement of a memory until the list shows it."""
    await shown(page, url, "/memories?project=lighthouse")
    await page.until("document.getElementById('live').textContent === 'live'")
    times: list[float] = []
    for number in range(writes):
        text = f"Ship {number} passed the lighthouse at {time.time_ns()}."
        times.append(await page.value(SHOWN % (json.dumps(text), json.dumps("lighthouse"))))
    return {"live_p50_ms": round(percentile(times, 0.5)), "live_p95_ms": round(percentile(times, 0.95))}


async def measured(url: str, quick: bool) -> dict[str, Any]:
    """All figures, of a server that has the fleet's work."""
    said = commands(datetime.now(UTC) - timedelta(minutes=10), memories=2_400)
    body = b"".join(export(said))
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False) as client:
        (await client.post("/v1/admin/import", content=body)).raise_for_status()
    await projected(Pool(url))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with browser_page(Path(folder) / "profile") as page:
            figures: dict[str, Any] = {"observations": sum(one["type"] == "observe" for one in said)}
            figures |= await loads(page, url, 2 if quick else 9)
            figures |= await tabs(page, url, 2 if quick else 7)
            figures |= await dragged(page, url, 2.0 if quick else 10.0)
            figures |= await live(page, url, 5 if quick else 30)
            if page.complaints:
                raise RuntimeError(f"the page complains: {page.complaints[0]}")
            return figures


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some seconds, to see that it works")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("there is no chromium here")
    with Stack(embedder="none") as stack:
        figures = uvloop.run(measured(stack.url, options.quick))
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>26}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
