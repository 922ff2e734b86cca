"""What is public: the modules on the reference pages, their names, and what their docstrings say."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import dpadmm

PAGES = Path(__file__).parents[1] / "docs" / "reference"
BLOCK = re.compile(r"^::: (\S+)\n((?:[ ]+.*\n?)*)", flags=re.M)
MEMBERS = re.compile(r"members: \[(.*?)\]")

DOCUMENTED = ("dpadmm", "dpadmm.testing", "dpadmm.audit")  # whose docstrings say all arguments


def _pages() -> Iterator[tuple[str, str, list[str] | None]]:
    for page in sorted(PAGES.glob("*.md")):
        for module, options in BLOCK.findall(page.read_text() + "\n"):
            members = MEMBERS.search(options)
            yield page.name, module, members.group(1).split(", ") if members else None


SHOWN = list(_pages())


def _public() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, module, names in SHOWN:
        found.setdefault(module, set()).update(names or importlib.import_module(module).__all__)
    return found


@pytest.mark.parametrize(("page", "module", "names"), SHOWN, ids=[f"{page}-{module}" for page, module, _ in SHOWN])
def test_a_page_shows_names_that_its_module_defines(page: str, module: str, names: list[str] | None) -> None:
    """mkdocstrings leaves out what is not there, without a word."""
    found = importlib.import_module(module)
    if names is None:
        assert found.__all__, f"{module} shows everything, and needs __all__"
        names = []
    for name in names:
        home = getattr(getattr(found, name), "__module__", module)
        assert home == module, f"{page}: {module}.{name} is defined in {home}"


def test_the_public_names_are_pinned() -> None:
    """A name comes or goes by a change of this list, and of the changelog."""
    pinned = (Path(__file__).parent / "public_names.txt").read_text()
    lines = [f"{module}: {' '.join(sorted(names))}" for module, names in sorted(_public().items())]
    assert "\n".join(lines) + "\n" == pinned


def _functions() -> Iterator[tuple[str, Any]]:
    """Classes, functions and methods, those of bases in the library included, each once."""
    seen = set()
    for module in DOCUMENTED:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            members = [(name, found)]
            if inspect.isclass(found):
                members += [
                    (f"{name}.{key}", getattr(value, "__func__", value))
                    for base in found.__mro__
                    if base.__module__.startswith("dpadmm")
                    for key, value in vars(base).items()
                    if not key.startswith("_")
                ]
            for where, each in members:
                if (inspect.isfunction(each) or inspect.isclass(each)) and each not in seen:
                    seen.add(each)
                    yield f"{module}.{where}", each


FUNCTIONS = list(_functions())


def _raises(function: Any) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


@pytest.mark.parametrize(("name", "found"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_a_public_docstring_has_arguments_result_and_errors(name: str, found: Any) -> None:
    doc = inspect.getdoc(found)
    assert doc, "it has no docstring"
    if inspect.isclass(found):
        if issubclass(found, Exception | Enum) or getattr(found, "_is_protocol", False):
            return
        assert not inspect.signature(found).parameters or re.search(r"^(Args|Attributes):$", doc, flags=re.M)
        return
    taken = [each for each in inspect.signature(found).parameters if each not in ("self", "cls")]
    said = re.search(r"^Args:\n((?: +.*\n?|\n)+?)(?=^\S|\Z)", doc, flags=re.M)
    assert not taken or said, "Args are missing"
    told = re.findall(r"^    \*{0,2}(\w+):", said.group(1), flags=re.M) if said else []
    assert told == taken
    result = inspect.signature(found).return_annotation
    if result not in (None, "None", "NoReturn"):
        assert re.search(r"^(Returns|Yields):$", doc, flags=re.M), "Returns are missing"
    if _raises(found):
        assert re.search(r"^Raises:$", doc, flags=re.M), "Raises are missing"


def test_the_public_names_have_a_page() -> None:
    assert set(dpadmm.__all__) == _public()["dpadmm"]
