"""What the page is made of, without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from dpadmm.report import page
from dpadmm.report.page import html


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.elements[-1][0] if self.elements else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def policy(self) -> dict[str, str]:
        found = [each["content"] for each in self.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
        assert len(found) == 1
        return dict(rule.split(" ", 1) for rule in str(found[0]).split("; "))

    @property
    def scripts(self) -> list[str]:
        return [text for text in self.texts["script"] if text.strip()]


def test_the_page_holds_the_document(documents):
    document = documents.several()
    report, _ = Parts(html(document)).scripts
    assert json.loads(report) == document.to_json()


def test_nothing_is_loaded_and_only_the_pages_own_script_and_style_run(documents):
    parts = Parts(html(documents.single()))
    assert [each["href"] for each in parts.all("link")] == ["data:,"]
    assert not [element for element, given in parts.elements if "src" in given or "srcset" in given]
    _, script = parts.scripts
    (style,) = (text for text in parts.texts["style"] if text.strip())
    sign = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name, text in {"script-src": script, "style-src": style}.items()
    }
    assert parts.policy == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
        **sign,
    }


def test_only_a_live_page_may_connect_and_only_to_where_it_came_from(documents):
    still, live = Parts(html(documents.single())), Parts(html(documents.single(), live=True))
    assert "connect-src" not in still.policy
    assert live.policy["connect-src"] == "'self'"
    assert "data-live" not in still.all("html")[0]
    assert "data-live" in live.all("html")[0]


def test_text_of_people_adds_no_element(documents):
    hostile, tame = html(documents.hostile()), html(documents.single())
    assert [name for name, _ in Parts(hostile).elements] == [name for name, _ in Parts(tame).elements]
    hostile.encode("utf-8")  # half of a character pair, as in names of files, does not stop it
    report, _ = Parts(hostile).scripts
    assert json.loads(report)["title"] == documents.HOSTILE
    assert not set("<>&") & set(report)


def test_every_asset_is_in_the_package_and_used():
    found = {each.name for each in files("dpadmm.report").joinpath("assets").iterdir()}
    assert found == {"page.html", "page.css", *(f"{name}.js" for name in page._SCRIPTS)}


@pytest.mark.parametrize("name", page._SCRIPTS)
def test_scripts_make_no_html_of_text_and_name_no_address(name):
    text = page._asset(f"{name}.js").replace("http://www.w3.org/2000/svg", "")  # a name, never loaded
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|://|</script", text)


def test_a_document_of_nothing_is_a_page(documents):
    report, _ = Parts(html(documents.document([], []))).scripts
    assert json.loads(report)["charts"] == []
