"""Pages in a real browser, as different people need them: in the dark, without seeing, on paper, on a telephone."""

from __future__ import annotations

import base64
import itertools
import re
from dataclasses import replace

import pytest

CONTRAST = """(() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const found = channels(getComputedStyle(each).backgroundColor);
      if (found[3] !== 0) return found;
    }
  };
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const seen = node.checkVisibility() && !["SCRIPT", "NOSCRIPT"].includes(node.tagName);
    const style = getComputedStyle(node);
    const front = own && seen ? style[node instanceof SVGElement ? "fill" : "color"] : null;
    const add = (colour, least) =>
      found.push([ratio(light(channels(colour)), light(behind(node))), least, node.outerHTML.slice(0, 80)]);
    if (front) add(front, 4.5);
    if (node.matches("path.curve, line.curve")) add(style.stroke, 3);
    if (node.matches("rect.bar, circle.node:not(.hollow)")) add(style.fill, 3);
  }
  return found;
})()"""


@pytest.mark.parametrize("name", ["several", "power"])
def test_light_and_dark_have_enough_contrast(page, documents, name):
    page.open(getattr(documents, name)())
    colours = "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
    seen = []
    for scheme in ("light", "dark"):
        page.media(scheme=scheme)
        seen.append(page.ask(colours))
        assert [each for each in page.ask(CONTRAST) if each[0] < each[1]] == []
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]
    page.wait("document.getElementById('theme').textContent === 'Light colours'")  # the page hears of it a little later
    page.ask("document.getElementById('theme').click()")
    assert page.ask(colours) == seen[0]
    assert page.ask("document.getElementById('theme').textContent") == "Dark colours"


def test_sections_come_in_order_and_say_what_the_document_says(show, documents):
    page = show(documents.several())
    assert page.ask("[...document.querySelectorAll('main section')].map((each) => each.id)") == (
        ["guarantee", "warnings", "convergence", "budget", "model", "run"]
    )
    text = page.ask("document.body.innerText")
    for said in ("✓ Private", "✗ Not private", documents.PRIVATE.plain, documents.PRIVATE.exact, "admm: No noise.",
                 "crashed: the disk is full (round 12 of 100)", "interrupted (round 40 of 100)"):  # fmt: skip
        assert said in text
    differing = (
        "[...document.querySelectorAll('.facts .differs')].map((each) => each.parentElement.firstChild.textContent)"
    )
    assert page.ask(differing) == ["seed", "extra"]
    assert page.ask("document.querySelector('#run pre').textContent") == documents.run().spec
    page = show(documents.single())
    label = "[...document.querySelectorAll('.simulated')].map((each) => each.closest('article').id)"
    assert page.ask(label) == ["chart-noise"]


def test_a_simulation_gets_no_green_tick(show, documents):
    guarantee = replace(documents.PRIVATE, simulated=True, notes=("Its noise is seeded.",))
    page = show(replace(documents.single(), runs=[documents.run(guarantee=guarantee)]))
    assert page.ask("document.querySelector('.verdict').textContent") == "◐ Simulated: seeded noise protects nobody"
    assert page.ask("document.querySelector('.guarantee').className") == "guarantee seeded"
    assert page.ask("document.querySelector('.notes').textContent") == "Its noise is seeded."


def test_a_page_can_be_read_without_seeing_it(show, documents):
    page = show(documents.several())
    headings = page.ask("[...document.querySelectorAll('h1, h2, h3')].map((each) => +each.tagName[1])")
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(headings))
    ids = page.ask("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    named = (
        "(each.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent)"
    )
    names = page.ask(f"[...document.querySelectorAll('svg[role=img]')].map((each) => {named})")
    assert len(names) == 3
    assert all(len(each) == 2 and all(each) for each in names)
    assert "dp-admm: test error: from " in names[0][1]
    assert "last 1." in names[1][1]
    assert page.ask("[...document.querySelectorAll('svg')].every((each) => each.matches('[role=img], [aria-hidden]'))")
    assert page.ask("[...document.querySelectorAll('button')].every((each) => each.textContent.trim())")
    landmarks = ["body > header", "nav", "body > main", "body > footer"]
    assert page.ask("arguments[0].map((each) => document.querySelectorAll(each).length)", landmarks) == [1, 1, 1, 1]
    assert page.ask("document.documentElement.lang") == "en"
    page.key("Tab")
    assert page.ask("document.activeElement.getAttribute('href')") == "#main"
    assert page.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("paper", [(8.27, 11.69), (8.5, 11.0)])
def test_printing_gives_pages_without_buttons(show, documents, paper):
    page = show(documents.single())
    page.media(scheme="dark")
    printed = page.command("Page.printToPDF", paperWidth=paper[0], paperHeight=paper[1], printBackground=True)
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5
    page.media("print", "dark")
    assert page.ask("[...document.querySelectorAll('button')].filter((each) => each.checkVisibility()).every("
                    "(each) => each.closest('.legend'))")  # fmt: skip
    assert (
        page.ask("[...document.querySelectorAll('.numbers, nav, .tip')].some((each) => each.checkVisibility())")
        is False
    )
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.ask("getComputedStyle(document.querySelector('.card')).breakInside") == "avoid"


def test_a_hundred_agents_and_a_thousand_rounds_open_at_once(page, documents):
    address = page.open(documents.many())
    assert (page.folder / "report.html").stat().st_size < 3_000_000
    seconds = []
    for _ in range(3):
        page.go(address)
        seconds.append(page.ask("window.dpadmm.seconds"))
    assert min(seconds) < 2.0


def test_a_narrow_window_shows_all_without_scrolling_sideways(show, documents):
    page = show(documents.several())
    page.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    try:
        page.wait("document.querySelector('#chart-error-plot > svg').viewBox.baseVal.width < 390")
        assert page.ask("document.documentElement.scrollWidth <= 390")
        assert page.points("error") == [100, 100, 100]
    finally:
        page.command("Emulation.clearDeviceMetricsOverride")
