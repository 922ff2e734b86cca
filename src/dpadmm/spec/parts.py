"""Parts by value and by import path, for simulations: `loss=MyLoss(0.5)`, `--loss mypackage.losses:MyLoss:0.5`.

Importing a module runs its code. So paths are looked up here, and only where a simulation, an audit or a prediction is
started by the person who wrote the path; the terms of a federation hold registry names only, and `_registry.build`
refuses a path.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm._registry import is_import_path, numbers_in
from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.noise_schedule import NOISE_SCHEDULES, NoiseSchedule
from dpadmm.admm.rho import RHO_SCHEDULES, RhoSchedule
from dpadmm.admm.schedules import SCHEDULES, Schedule
from dpadmm.admm.topology.graph import Topology
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.losses import LOSSES, STATISTICS, Loss
from dpadmm.problems.penalties import PENALTIES, Penalty
from dpadmm.problems.sets import SETS, ConvexSet
from dpadmm.problems.sets.text import written
from dpadmm.spec.declare import AUTO, RunSpec
from dpadmm.spec.part import Part
from dpadmm.spec.sequences import FIELDS, from_file, is_table, table_text

# What each field of a run may hold beside a text, and the registry whose names come before import paths.
KINDS: dict[str, tuple[type, Mapping[str, Any]]] = {
    "algorithm": (Algorithm, {AUTO: None, **ALGORITHMS}),
    "loss": (Loss, LOSSES | STATISTICS),
    "penalty": (Penalty, PENALTIES),
    "set": (ConvexSet, SETS),
    "schedule": (Schedule, SCHEDULES),
    "rho_schedule": (RhoSchedule, RHO_SCHEDULES),
    "noise_schedule": (NoiseSchedule, NOISE_SCHEDULES),
}

_MAIN = ("__main__", "__mp_main__")  # a script, which no other process can import


def declared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments as a spec holds them: parts wrapped with their import paths, networks as text.

    Args:
        values: fields of a run by name, as a caller in Python gives them.

    Raises:
        InputError: a value is no part of the kind that its field needs.
    """
    found = dict(values)
    for name, value in values.items():
        if name == "start" and hasattr(value, "__array__"):
            found[name] = tuple(np.ravel(value).tolist())
        elif is_table(name, value):
            found[name] = table_text(name, value)
        elif name in FIELDS and isinstance(value, str):
            found[name] = from_file(name, value)
        elif name in KINDS and value is not None and not isinstance(value, str | Part):
            _check(name, value)
            found[name] = _registry_name(name, value) or Part(value, _import_path(name, value))
        elif name == "topology" and value is not None and not isinstance(value, str):
            found[name] = _network(value)
    return found


def imported(run: RunSpec) -> RunSpec:
    """The run with every import path replaced by the part that it names.

    This imports the modules that the paths name, so it is for specs that their user trusts: simulations, audits and
    predictions. Terms that come from others never pass through here.

    Raises:
        InputError: a path names nothing, or a part of another kind.
    """
    loaded: dict[str, Any] = {name: load(name, text) for name in KINDS if _is_path(name, text := getattr(run, name))}
    found = replace(run, **loaded) if loaded else run
    if found.loss is None and isinstance(found.algorithm, Part):
        usual = found.algorithm.value.base_loss
        return replace(found, loss=load("loss", usual)) if _is_path("loss", usual) else found
    return found


def load(field: str, text: str) -> Part:
    """The part that an import path names; `field` is that of a run which it is for.

    Raises:
        InputError: the path names nothing, or a part of another kind.
    """
    kind = field.replace("_", " ")
    module, attribute, *rest = text.split(":")
    try:
        value = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{kind} {text!r}: there is no such registry name, and as an import path it leads nowhere ({error}). "
            f"Install the package that has it, put its folder on PYTHONPATH, or correct the path, which is like "
            f"mypackage.module:Name."
        ) from None
    if isinstance(value, type) and issubclass(value, KINDS[field][0]):
        numbers = numbers_in(kind, text, rest)
        try:
            value = value(*numbers)
        except (TypeError, ValueError) as error:
            raise InputError(f"{kind} {text!r}: {attribute} cannot be made of these numbers ({error}).") from None
        return Part(value, text)
    _check(field, value)
    if rest:
        raise InputError(f"{kind} {text!r}: {attribute} is a value already, and takes no numbers after its name.")
    return Part(value, text)


def given(field: str, text: str) -> Any:
    """For `_registry.build`: a registry name as it is, or the part that an import path names."""
    return load(field, text).value if _is_path(field, text) else text


def _is_path(field: str, given: Any) -> bool:
    return isinstance(given, str) and is_import_path(given, KINDS[field][1])


def _check(field: str, value: Any) -> None:
    expected = KINDS[field][0]
    if isinstance(value, expected):
        return
    kind = field.replace("_", " ")
    if isinstance(value, type) and issubclass(value, expected):
        raise InputError(f"{kind} {value.__name__}: give an instance, {value.__name__}(...), not the class.")
    raise InputError(
        f"{kind} {value!r}: must be a registry name, an import path or an instance of {expected.__name__}."
    )


def _registry_name(field: str, value: Any) -> str | None:
    """The registry name, with numbers, of a part that is the library's own."""
    name = getattr(value, "name", "")
    found = KINDS[field][1].get(name)
    if field == "set":
        text = _with_numbers(name, value) if found is type(value) else None
        return text if text is not None and "," not in text else written(value)  # a comma would part two sets
    if isinstance(found, type):
        return _with_numbers(name, value) if found is type(value) else None
    return str(name) if found == value else None  # equal will do: scikit-learn's clone makes a copy of a recipe


def _import_path(field: str, value: Any) -> str | None:
    """The path that leads back to an equal value, if there is one."""
    found = (path for path in (_class_path(value), _module_path(value)) if path is not None)
    return next((path for path in found if _is_path(field, path)), None)  # a registry name before the colon would win


def _class_path(value: Any) -> str | None:
    """The path of its class, with numbers, if that leads back to an equal value."""
    kind = type(value)
    path = f"{kind.__module__}:{kind.__qualname__}"
    return None if kind.__module__ in _MAIN or _found(path) is not kind else _with_numbers(path, value)


def _with_numbers(name: str, value: Any) -> str | None:
    """A name and the numbers that its class makes an equal value of; None where there are none such."""
    made_of = [entry for entry in fields(value) if entry.init] if is_dataclass(value) else []
    try:
        while made_of and made_of[-1].default == getattr(value, made_of[-1].name):
            made_of.pop()
        numbers = [_text(getattr(value, entry.name)) for entry in made_of]
        made = type(value)(*numbers_in("part", name, numbers))
        return ":".join((name, *numbers)) if _state(made) == _state(value) else None
    except (TypeError, ValueError):  # of the class, or of arrays that are compared
        return None


def _state(value: Any) -> Any:
    """What makes a value differ from others of its class; what it has computed and keeps does not."""
    state = value.__getstate__() or {}
    if not isinstance(state, dict):
        return state
    return {name: entry for name, entry in state.items() if not _is_cache(type(value), name)}


def _is_cache(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)


def _text(number: Any) -> str:
    if isinstance(number, tuple):
        return ",".join(map(_text, number))
    return repr(float(number)) if isinstance(number, int | float) else str(number)


def _module_path(value: Any) -> str | None:
    """The first module that can be imported again and has this very value as an attribute."""
    for name, module in list(sys.modules.items()):
        if name in _MAIN or getattr(module, "__spec__", None) is None:
            continue
        for attribute, found in list(getattr(module, "__dict__", {}).items()):
            if found is value and not attribute.startswith("__"):
                return f"{name}:{attribute}"
    return None


def _found(path: str) -> Any:
    module, _, attribute = path.partition(":")
    value: Any = sys.modules.get(module)
    for name in attribute.split("."):
        value = getattr(value, name, None)
    return value


def _network(value: Any) -> str:
    """A network as text. Labels of a NetworkX graph that are names are owners' names; numbers are the nodes' own."""
    import networkx

    if isinstance(value, Topology):
        return value.text
    if not isinstance(value, networkx.Graph):
        raise InputError(f"topology {value!r}: must be a text such as 'ring:20', a networkx.Graph or a Topology.")
    if all(isinstance(label, str) for label in value.nodes):
        import json

        Topology.of(value)  # which refuses what is no network
        return json.dumps({"edges": [list(edge) for edge in value.edges()]}, separators=(",", ":"))
    return Topology.of(value).text
