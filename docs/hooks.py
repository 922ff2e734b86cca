"""What MkDocs does to every page of the site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from markdown import Extension, Markdown
from markdown.extensions.toc import slugify
from markdown.inlinepatterns import InlineProcessor
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
OF_THE_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
RESULTS = "reproductions/results"
CITATION = re.compile(r"\b(?:claims|theory(?: section)?) ([A-E]\d|\d(?:\.\d)?)\b")
LEFT_ALONE = ("a", "code", "pre", "h1", "h2", "h3")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> None:
    """Figures of the reproductions lie outside docs/, beside the numbers that they show."""
    for picture in sorted((ROOT / RESULTS).glob("*/*.png")):
        place = picture.relative_to(ROOT).as_posix()
        files.append(File.generated(config, place, abs_src_path=str(picture)))


def on_config(config: Any) -> None:
    config.markdown_extensions.append(InnerProducts())


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links that leave docs/ become the path that they lead to: the site does not have it.

    Three pages are files of the root, whose links are written as from there.
    """
    place = page.file.src_uri
    folder = "" if place in OF_THE_ROOT else join("docs", place.rpartition("/")[0])
    if place in OF_THE_ROOT:
        markdown = (ROOT / OF_THE_ROOT[place]).read_text(encoding="utf-8")

    def within(link: re.Match[str]) -> str:
        text, path, anchor = link.group(1), normpath(join(folder, link.group(2))), link.group(3) or ""
        if not path.startswith("docs/"):
            return f"{text} (`{path}`)"
        return f"[{text}]({path.removeprefix('docs/')}{anchor})" if not folder else link.group(0)

    return LINK.sub(within, markdown).replace(f"](../{RESULTS}/", f"]({RESULTS}/")


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """What the code and the pages cite ("theory 3.4", "claims B5") leads to its heading in docs/theory."""
    parts, inside = re.split(r"(<[^>]*>)", html), 0
    for number, part in enumerate(parts):
        if found := re.match(r"<(/?)(\w+)", part):
            inside += (-1 if found.group(1) else 1) * (found.group(2) in LEFT_ALONE)
        elif not inside:
            parts[number] = CITATION.sub(lambda cited: _cited(cited, page.url), part)
    return "".join(parts)


def _cited(cited: re.Match[str], url: str) -> str:
    place = _places().get(cited.group(1))
    return cited.group(0) if place is None else f'<a href="{get_relative_url(place, url)}">{cited.group(0)}</a>'


@cache
def _places() -> dict[str, str]:
    """The theory's headings by their first words."""
    return {
        heading.split()[0]: f"theory/{page.stem}.html#{slugify(heading, '-')}"
        for page in sorted((ROOT / "docs" / "theory").glob("*.md"))
        for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    }


class InnerProducts(Extension):
    """<a, x> in a text is an inner product, and no HTML tag."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.inlinePatterns.register(_Product(r"<([^<>\"=\n]*,[^<>\"=\n]*)>", md), "inner-products", 100)


class _Product(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: N802
        return f"⟨{m.group(1)}⟩", m.start(0), m.end(0)
