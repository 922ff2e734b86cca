"""What the machine code of a loss depends on, as one digest: its sources on disk and its functions in memory.

Either alone would miss something. A source does not show a constant that is read from the environment, a function of
another package, or a file that was edited after it was imported; functions do not show what a module registers with
Numba by itself.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from importlib.machinery import all_suffixes
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

PACKAGE = f"{__name__.partition('.')[0]}."
ROOMS = ("_kernels", "problems", "release")  # their sources name the library's own cache folder
OWN = tuple(f"{PACKAGE}{room}." for room in ROOMS)
_LIBRARIES = {*sys.stdlib_module_names, "numpy", "numba"}  # Numba brings its own code for these: a name says enough
_CONSTANTS = (type(None), type(...), bool, int, float, complex, str, bytes, slice)


class _Unknown(Exception):
    """Something whose meaning cannot be written down, so nothing that depends on it may be kept on disk."""


def digest(tag: type, bodies: Mapping[Callable[..., Any], Callable[..., Any]]) -> str | None:
    """The digest of one loss.

    Args:
        tag: The class of its tag.
        bodies: Its functions, by the stub that they implement.

    Returns:
        The digest; None where the class cannot be found by its name in a module with a source file (an interactive
        session, a class made by a function, a class that has been replaced) or depends on something unknown.
    """
    if tag.__module__ == "__main__" or _named(tag) is not tag:
        return None
    found = hashlib.sha256()
    try:
        for line in _sources({tag.__module__, *(body.__module__ for body in bodies.values())}):
            found.update(line.encode())
        for stub, body in sorted(bodies.items(), key=lambda item: item[0].__name__):
            for line in (stub.__name__, *_meaning(body, frozenset(), set())):
                found.update(f"{line}\n".encode())
    except (_Unknown, OSError, SyntaxError, UnicodeError, RecursionError):
        return None
    return found.hexdigest()[:32]


def _named(tag: type) -> Any:
    found: Any = sys.modules.get(tag.__module__)
    for name in tag.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


# -- sources -----------------------------------------------------------------------------------------------------------


def _sources(names: Iterable[str]) -> list[str]:
    """The named modules and those of the same top-level package that they import, each with a hash of its file."""
    files: dict[str, Path] = {}
    for name in names:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin is None:
            raise _Unknown(name)
        files[name] = Path(origin)
    waiting, lines = list(files), []
    while waiting:
        name = waiting.pop()
        content = files[name].read_bytes()
        lines.append(f"{name} {hashlib.sha256(content).hexdigest()}\n")
        if files[name].suffix != ".py":
            continue
        top = name.partition(".")[0]
        for other in _imported(content, name if files[name].stem == "__init__" else name.rpartition(".")[0]):
            if other.partition(".")[0] == top and other not in files and (file := _file(other)) is not None:
                files[other] = file
                waiting.append(other)
    return sorted(lines)


@lru_cache
def _imported(content: bytes, package: str) -> frozenset[str]:
    """The modules that a source may import, with the packages around them. Some of the names may be no modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
    return frozenset(
        ".".join(parts[:end]) for parts in (n.split(".") for n in names) for end in range(1, len(parts) + 1)
    )


def _file(name: str) -> Path | None:
    """Where a module of a package that is imported lies; looked up by its path, since nothing may be imported here."""
    top, *rest = name.split(".")
    package = sys.modules.get(top)
    if not rest:
        origin = getattr(package, "__file__", None)
        return Path(origin) if origin else None
    for root in getattr(package, "__path__", ()):
        stem = Path(root, *rest)
        for candidate in (stem / "__init__.py", *(stem.with_name(stem.name + suffix) for suffix in all_suffixes())):
            if candidate.is_file():
                return candidate
    return None


# -- functions in memory -----------------------------------------------------------------------------------------------


def _meaning(value: Any, names: frozenset[str], seen: set[Any]) -> Iterator[str]:
    """Lines that differ wherever the machine code could; `names` are those that the code around it uses."""
    kind = type(value)
    if isinstance(value, Enum):
        yield f"{kind.__module__}.{kind.__qualname__}.{value.name}"
        yield from _meaning(value.value, names, seen)
    elif isinstance(value, _CONSTANTS):
        yield f"{kind.__name__} {value!r}"
    elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        yield f"{value.dtype!r} {value.shape} {value.strides} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, tuple):
        yield f"{kind.__module__}.{kind.__qualname__} of {len(value)}"
        for each in value:
            yield from _meaning(each, names, seen)
    elif isinstance(value, (set, frozenset, dict)):
        pairs = value.items() if isinstance(value, dict) else ((each,) for each in value)
        yield from (f"{kind.__name__} of {len(value)}", *sorted("\n".join(_meaning(p, names, seen)) for p in pairs))
    elif isinstance(value, ModuleType):
        yield value.__name__
        key = (value.__name__, names)
        if key not in seen and not _library(value.__name__):
            seen.add(key)
            for name in sorted(names & vars(value).keys()):
                yield from (name, *_meaning(vars(value)[name], names, seen))
    elif _library(str(getattr(value, "__module__", None) or kind.__module__)) and not hasattr(value, "__wrapped__"):
        yield f"{kind.__qualname__} {getattr(value, '__qualname__', None) or getattr(value, '__name__', value)}"
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
        if issubclass(value, Enum):
            for member in value:
                yield from _meaning(member, names, seen)
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}"
        if value not in seen:
            seen.add(value)
            yield from _function(value, seen)
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):  # a function that Numba has been given
        yield from _meaning(dict(value.targetoptions), names, seen)
        yield from _meaning(value.py_func, names, seen)
    else:
        raise _Unknown(kind)


def _function(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    codes = list(_codes(function.__code__))
    names = frozenset(name for code in codes for name in code.co_names)
    for code in codes:
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} {shape}"
        for constant in code.co_consts:
            if not isinstance(constant, CodeType):
                yield from _meaning(constant, names, seen)
    reached = [(name, function.__globals__[name]) for name in sorted(names & function.__globals__.keys())]
    reached += zip(
        function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True
    )
    reached += [("defaults", (function.__defaults__, function.__kwdefaults__))]
    for name, value in reached:
        yield from (name, *_meaning(value, names, seen))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES or module.startswith(OWN)
