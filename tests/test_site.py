"""The documentation site: built strictly, whole, and without anything from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from importlib import import_module, util
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"
FETCHED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
    "use": "href",
}

ROOMS = {
    "dpadmm": ["dpadmm"],
    "estimators": ["dpadmm.estimators"],
    "privacy": ["dpadmm.privacy"],
    "problems": ["dpadmm.problems.losses", "dpadmm.problems.penalties", "dpadmm.problems.sets"],
    "admm": [f"dpadmm.admm.{part}" for part in ("perturbations", "consensus", "solvers", "schedules")],
    "papers": ["dpadmm.papers"],
    "datasets": ["dpadmm.datasets"],
    "audit": ["dpadmm.audit"],
    "applications": ["dpadmm.applications.curves", "dpadmm.applications.power_flow"],
}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a process of its own, since plugins warn of things that are not ours.

    Not with --quiet: MkDocs then counts no warnings, and --strict means nothing.
    """
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Page(HTMLParser):
    """What a page links to, what it fetches, and where one can jump to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.words = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.places |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        if tag in FETCHED and FETCHED[tag] in known:
            self.fetched.append(known[FETCHED[tag]])
        self.fetched += re.findall(r"url\(['\"]?([^)'\"]*)", known.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.words += len(data.split())


@cache
def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> list[Path]:
    found = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    assert len(found) == len(list(DOCS.rglob("*.md")))
    return found


def test_no_page_fetches_anything_from_elsewhere(site):
    for path in pages(site):
        for address in read(path).fetched:
            assert not urlsplit(address).scheme or address.startswith("data:"), f"{path.name} fetches {address}"
            assert not address.startswith("//"), f"{path.name} fetches {address}"
            assert (path.parent / unquote(urlsplit(address).path)).exists(), f"{path.name}: {address} is missing"
        text = path.read_text(encoding="utf-8")
        assert 'class="mermaid' not in text  # which the theme would fetch from elsewhere, and so
        assert 'data-md-component="source"' not in text  # facts of a repository
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text(encoding="utf-8"))


def test_every_link_within_the_site_leads_somewhere(site):
    checked = 0
    for path in pages(site):
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("https", "mailto"), f"{path.name}: {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name}: {link} leads nowhere"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in read(target).places, f"{path.name}: {link} has no such place"
            checked += 1
    assert checked > 1000


def test_every_page_of_docs_is_in_the_navigation_once():
    def flat(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in flat(part)]

    told = flat(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(told) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("picture", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.name)
def test_a_picture_says_what_it_shows_and_holds_all_it_needs(picture):
    root = ElementTree.parse(picture).getroot()
    assert root.find(f"{SVG}title").text.strip()
    assert len(root.find(f"{SVG}desc").text.split()) > 10
    assert root.get("aria-labelledby") == "title desc"
    assert not re.search(r"(href|src)=\"|url\((?!#)", picture.read_text(encoding="utf-8"))
    shown = [page for page in DOCS.rglob("*.md") if f"pictures/{picture.name})" in page.read_text(encoding="utf-8")]
    assert shown, f"no page shows {picture.name}"


def test_the_curve_of_a_budget_has_the_library_s_numbers():
    spec = util.spec_from_file_location("budget", DOCS / "pictures" / "budget.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.picture() == (DOCS / "pictures" / "budget.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "module"), [(page, module) for page, rooms in ROOMS.items() for module in rooms])
def test_the_reference_has_every_public_name_of_a_room(page, module, site):
    room = import_module(module)
    ours = [name for name in room.__all__ if getattr(getattr(room, name), "__module__", module).startswith("dpadmm")]
    assert {f"{module}.{name}" for name in ours} <= read(site / "reference" / f"{page}.html").places
    places = read(site / "reference" / f"{page}.html").places
    # But for what losses of one's own are compiled by, which lies below all rooms (docs/own_parts.md).
    assert not [place for place in places if re.search(r"\._(?!kernels\b)[a-z]", place)]


def test_figures_that_help_to_choose_were_measured_elsewhere():
    """Each one of three digits is a figure of `auto` or of equal budgets, rounded."""
    measured = [float(number) for page in ("auto", "equal_budgets") for number in _decimals(DOCS / f"{page}.md")]
    told = _decimals(DOCS / "choosing.md")
    assert len(told) > 10
    for number in told:
        places = len(number.partition(".")[2])
        assert any(abs(figure - float(number)) <= 0.5001 * 10.0**-places for figure in measured), number


def _decimals(page: Path) -> list[str]:
    return re.findall(r"(?<![\w.])\d+\.\d{3,}(?![\w.]*\d)", page.read_text(encoding="utf-8"))


def test_no_page_is_empty(site):
    for path in pages(site):
        text = path.read_text(encoding="utf-8")
        article = text[text.index("<article") : text.index("</article>")]
        assert Page(article).words > 60, path.name


def test_pages_of_the_root_are_the_files_of_the_root(site):
    for page, said in (
        ("contributing", "Each axis has one registry"),
        ("changelog", "### Added"),
        ("security", "## Who can do what"),
    ):
        title = (ROOT / f"{page.upper()}.md").read_text(encoding="utf-8")
        assert said in title
        assert said.lstrip("# ") in (site / f"{page}.html").read_text(encoding="utf-8")


def test_inner_products_are_no_tags(site):
    assert "⟨a, x⟩" in (site / "functional.html").read_text(encoding="utf-8")


def test_what_pages_and_docstrings_cite_is_a_link_to_the_theory(site):
    place = "theory/claims.html#b5-ps-admm-theorem-2"
    assert f'<a href="{place}">claims B5</a>' in (site / "stochastic.html").read_text(encoding="utf-8")
    assert f'<a href="../{place}">claims B5</a>' in (site / "reference" / "admm.html").read_text(encoding="utf-8")
