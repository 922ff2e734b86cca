"""Writes the files that follow from declared fields: `make generate`.

A run's fields are declared in `dpadmm/spec/declare.py`, options of parts in the parts themselves. From these come
`PartOptions` (so that a help text needs no import of the parts), the keyword arguments of `dpadmm.train`, and the
reference page of all options.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

from dpadmm._fields import Declaration, declarations, is_option, written_type
from dpadmm.admm.consensus import CONSENSUS
from dpadmm.admm.perturbations import PERTURBATIONS
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.admm.solvers import SOLVERS
from dpadmm.spec._part_options import PartOptions
from dpadmm.spec.declare import TABLES

ROOT = Path(__file__).parents[1]
PARTS: tuple[type, ...] = tuple(
    part for registry in (SOLVERS, PERTURBATIONS, CONSENSUS, SCHEDULES) for part in registry.values()
)
PART_TYPES = {
    "algorithm": "Algorithm",
    "loss": "Loss",
    "penalty": "Penalty",
    "set": "ConvexSet",
    "schedule": "Schedule",
    "rho_schedule": "RhoSchedule | ArrayLike",
    "noise_schedule": "NoiseSchedule | ArrayLike",
    "topology": "Topology | networkx.Graph",
}
WIDTH = 112  # of texts in generated code: 120 without indentation and quotes
MADE = "Made by `make generate`; do not edit."


def part_options(parts: Iterable[type] = PARTS) -> list[Declaration]:
    """The options that parts declare.

    Raises:
        ValueError: Two parts declare one name differently, or a part declares a name that is a field of a spec.
    """
    found: dict[str, Declaration] = {}
    types: dict[str, tuple[str, str]] = {}
    spec = {option.name: table for table, options in tables([]).items() for option in options}
    for part in (part for part in parts if is_dataclass(part)):
        for entry in (entry for entry in fields(part) if entry.init):
            kind, first = written_type(entry).removesuffix(" | None"), types.get(entry.name)
            types.setdefault(entry.name, (kind, part.__name__))
            if is_option(entry):
                declared = Declaration.of(entry)
                if found.setdefault(entry.name, declared) != declared:
                    raise ValueError(f"{part.__name__}.{entry.name}: another part declares this option differently.")
                if entry.name in spec:
                    raise ValueError(f"{part.__name__}.{entry.name}: is a field of the table [{spec[entry.name]}].")
            if first is not None and first[0] != kind:
                raise ValueError(f"{part.__name__}.{entry.name}: is {kind} here, and {first[0]} in {first[1]}.")
    return list(found.values())


def tables(options: Iterable[Declaration]) -> dict[str, list[Declaration]]:
    """The declared fields of every table of a spec; those of [run] are its own and then the options of parts."""
    known = {option.name for option in declarations(PartOptions)}
    found = {
        table: [each for each in declarations(spec) if table != "run" or each.name not in known]
        for table, spec in TABLES.items()
    }
    found["run"] += options
    return found


def part_options_module(options: Iterable[Declaration]) -> str:
    """`spec/_part_options.py`."""
    lines = [
        f'"""Options of the parts of a recipe, as fields of a run. {MADE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass",
        "",
        "from dpadmm._fields import option",
        "",
        "",
        "@dataclass(frozen=True, kw_only=True)",
        "class PartOptions:",
        '    """Fields of the parts of a recipe. None means: the recipe\'s own."""',
        "",
    ]
    for option in options:
        lines += [f"    {option.name}: {_optional(option.type)} = option(", "        None,"]
        lines += _string("help", option.help)
        lines += [f"        panel={_quoted(option.panel)},", f"        flag={_quoted(option.flag)},"]
        for name in ("off_flag", "shown"):
            if getattr(option, name) is not None:
                lines += _string(name, getattr(option, name))
        if option.first:
            lines.append("        first=True,")
        lines.append("    )")
    return "\n".join(lines) + "\n"


def train_options_module(found: Mapping[str, list[Declaration]]) -> str:
    """`spec/train_options.py`."""
    lines = [
        f'"""The keyword arguments of `dpadmm.train`. {MADE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping, Sequence",
        "from typing import TYPE_CHECKING, Any, TypedDict",
        "",
        "if TYPE_CHECKING:",
        "    import networkx",
        "    from numpy.typing import ArrayLike",
        "",
        "    from dpadmm.admm.algorithm import Algorithm",
        "    from dpadmm.admm.noise_schedule import NoiseSchedule",
        "    from dpadmm.admm.rho import RhoSchedule",
        "    from dpadmm.admm.schedules import Schedule",
        "    from dpadmm.admm.topology.graph import Topology",
        "    from dpadmm.problems.losses import Loss",
        "    from dpadmm.problems.penalties import Penalty",
        "    from dpadmm.problems.sets import ConvexSet",
        "",
        "",
        "class TrainOptions(TypedDict, total=False):",
        '    """Fields of the tables [run], [data] and [simulation]; None leaves a field as it is."""',
    ]
    for table in ("run", "data", "simulation"):
        for option in found[table]:
            lines += ["", f"    {option.name}: {_accepted(option)}"]
            said = textwrap.wrap(option.help, WIDTH)
            if len(said) == 1:
                lines.append(f'    """{said[0]}"""')
            else:
                lines += [f'    """{said[0]}', *(f"    {line}" for line in said[1:]), '    """']
    return "\n".join(lines) + "\n"


def reference_page(found: Mapping[str, list[Declaration]]) -> str:
    """`docs/reference/options.md`."""
    lines = [
        "# Options of a run",
        "",
        "Every field of a spec file, by table. In Python the keys of [run], [data] and [simulation] are keyword",
        'arguments of `dpadmm.train`; on the command line they are flags of `dpadmm train`. Where the default is "-",',
        "the recipe has its own, or the field is not used. `make generate` makes this page from the declarations.",
    ]
    for table, options in found.items():
        lines += ["", f"## [{table}]", "", "| key | flag | type | default | meaning |", "|---|---|---|---|---|"]
        for option in options:
            flags = [f"`{flag}`" for flag in (option.flag, option.off_flag) if flag]
            cells = [
                f"`{option.name}`",
                ", ".join(flags) or "-",
                f"`{option.type.removesuffix(' | None')}`",
                _cell(option.shown or "-"),
                _cell(option.help),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def generated(parts: Iterable[type] = PARTS) -> dict[Path, str]:
    """Every generated file with its text."""
    options = part_options(parts)
    found = tables(options)
    return {
        ROOT / "src/dpadmm/spec/_part_options.py": part_options_module(options),
        ROOT / "src/dpadmm/spec/train_options.py": train_options_module(found),
        ROOT / "docs/reference/options.md": reference_page(found),
    }


def _optional(kind: str) -> str:
    return f"{kind.removesuffix(' | None')} | None"


def _accepted(option: Declaration) -> str:
    """The type that Python code may give: parts as they are, any sequence for a list, one number for a list of them."""
    kind = option.type.removesuffix(" | None")
    if kind.startswith("tuple["):
        member = kind.removeprefix("tuple[").removesuffix(", ...]")
        kind = f"{'float | ' if member == 'float' else ''}Sequence[{member}]"
    if option.part is not None:
        kind = f"{kind} | {PART_TYPES[option.part]}"
    return f"{kind} | None"


def _string(name: str, text: str) -> list[str]:
    """An argument of a call, in as many lines as it needs."""
    said = textwrap.wrap(text, WIDTH - len(name) - 10, drop_whitespace=False)
    said = [_quoted(line) for line in said]
    return textwrap.indent(f"{name}=" + "\n".join(said) + ",", " " * 8).split("\n")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Writes what has changed."""
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
