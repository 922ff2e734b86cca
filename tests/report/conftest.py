"""Documents and a browser for the tests of report pages. The browser is started once, and only if a test needs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import report_documents
from debian import Unavailable

from dpadmm.report.document import Document
from dpadmm.report.page import html


@pytest.fixture(scope="session")
def documents() -> ModuleType:
    return report_documents


BOX = """(() => {
  const box = document.querySelector(arguments[0]);
  box.scrollIntoView({ block: "center", behavior: "instant" });
  const { left, top, width, height } = box.getBoundingClientRect();
  return [left, top, width, height];
})()"""
TIP = """(() => {
  const tip = document.querySelector(`#chart-${arguments[0]} .tip`);
  const cells = [...tip.querySelectorAll("tr")].map((row) => [...row.cells].slice(1).map((cell) => cell.textContent));
  return tip.hidden ? null : { title: tip.querySelector("strong").textContent, rows: cells, text: tip.textContent };
})()"""
GRID = "['x1', 'x2'].map((end) => +document.querySelector(`#chart-${arguments[0]} .grid`).getAttribute(end))"


class Page:
    """A report in a browser, as a test sees it."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(self, document: Document) -> str:
        """Writes and opens it; its address."""
        path = self.folder / "report.html"
        path.write_text(html(document), encoding="utf-8")
        self.go(path.as_uri())
        return path.as_uri()

    def go(self, address: str) -> None:
        self.messages(), self.requests()  # what was logged before is not of this page
        self.driver.get(address)
        self.wait("window.dpadmm?.drawn === true")

    def ask(self, script: str, *values: Any) -> Any:
        """The value of an expression; `values` are its `arguments`."""
        return self.driver.execute_script(f"return {script}", *values)

    def wait(self, script: str, *values: Any) -> None:
        """Until an expression is true."""
        waiting = (
            "const done = arguments[arguments.length - 1], until = Date.now() + 20000;"
            f"const look = () => ({script}) ? done(true) : Date.now() > until ? done(false) : setTimeout(look, 20);"
            "look()"
        )
        assert self.driver.execute_async_script(waiting, *values), f"never true: {script}"

    def command(self, name: str, **values: Any) -> dict[str, Any]:
        """One of Chromium's own protocol."""
        return self.driver.execute_cdp_cmd(name, values)

    def media(self, kind: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media=kind, features=features)

    def point(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A real event of the mouse at a place of the window."""
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self.command("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def points(self, chart: str) -> list[int]:
        """How many points each series of a chart has on the page."""
        series = "document.querySelectorAll(`#chart-${arguments[0]} [data-points]`)"
        return self.ask(f"[...{series}].map((each) => +each.dataset.points)", chart)

    def tip(self, chart: str) -> dict[str, Any] | None:
        """What a chart's tooltip says, if it is shown."""
        return self.ask(TIP, chart)

    def box(self, selector: str) -> list[float]:
        """Left, top, width and height of an element, which is scrolled into view."""
        return self.ask(BOX, selector)

    def place(self, chart: str, part: float, height: float = 0.5) -> tuple[float, float]:
        """A place in the plane of a chart's lines: a part of the way from its first x to its last."""
        left, top, _, tall = self.box(f"#chart-{chart}-plot > svg")
        first, last = self.ask(GRID, chart)
        return left + first + part * (last - first), top + height * tall

    def drag(self, chart: str, start: float, end: float) -> None:
        (x, y), (to, _) = self.place(chart, start), self.place(chart, end)
        self.point("mouseMoved", x, y)
        self.point("mousePressed", x, y, button="left", clickCount=1)
        for each in ((x + to) / 2, to):
            self.point("mouseMoved", each, y, button="left", buttons=1)
        self.point("mouseReleased", to, y, button="left", clickCount=1)

    def messages(self) -> list[str]:
        """What the console said since the last question."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What the browser loaded since the last question."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    from browser import browser  # which needs Selenium

    try:
        with browser() as opened:
            yield opened
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def page(driver: Any, tmp_path: Path) -> Iterator[Page]:
    page = Page(driver, tmp_path)
    page.media()
    yield page
    page.driver.get("about:blank")


@pytest.fixture
def show(page: Page) -> Callable[[Document], Page]:
    """Opens a document and gives its page."""

    def shown(document: Document) -> Page:
        page.open(document)
        return page

    return shown
