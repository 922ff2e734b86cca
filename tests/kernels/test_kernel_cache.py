"""Kernels on disk: they follow every loss, wherever it stands, and nothing unreadable among them is an error.

Each step is a process of its own, since a process reads a kernel from disk once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Prints, for each loss named, the total of its values over four records; and what was read, and what compiled.
USE = """
import importlib, json, sys
import numpy as np
from dpadmm.problems.kernels import margins

def total(name):
    module, _, tag = name.rpartition(".")
    out = np.zeros((1, 1))
    rows = (np.ones((4, 2)), -np.ones(4), np.array([0]), np.array([4]), np.array([0]))
    margins.values(getattr(importlib.import_module(module), tag)(0.5), *rows, np.ones((1, 2)), out)
    return out[0, 0]

totals = [total(name) for name in sys.argv[1:]]
read, compiled = margins.values.stats.cache_hits, margins.values.stats.cache_misses
print(json.dumps({"totals": totals, "read": sum(read.values()), "compiled": sum(compiled.values())}))
"""

LOSS = """
from typing import NamedTuple
from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
{imports}

class Tag(NamedTuple):
    offset: float

@implements(loss_functions.value, Tag)
def _value(loss, margin, target):
    return {value} + loss.offset
"""

HINGE = "dpadmm.problems.losses.hinge.HingeTag"
HINGE_TOTAL = 12.0  # four records on the wrong side by a margin of 2


@dataclass
class Place:
    """A folder of packages, and a cache of its own."""

    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache" / "dpadmm"

    def files(self, inside: str = "*") -> list[Path]:
        return sorted(file for file in self.cache.glob(f"{inside}/**/*") if file.is_file())

    def write(self, package: str, value: str = "3.0", imports: str = "", **others: str) -> str:
        """A package with a loss, and with other modules; returns the name of the tag."""
        (self.folder / package).mkdir(exist_ok=True)
        for name, text in {"__init__": "", "loss": LOSS.format(value=value, imports=imports), **others}.items():
            (self.folder / package / f"{name}.py").write_text(text)
        return f"{package}.loss.Tag"

    def run(self, script: str, *arguments: str, **environment: str) -> Any:
        paths = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(self.folder / "cache")}
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, env={**os.environ, **settings, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def use(self, *names: str, **environment: str) -> Any:
        return self.run(USE, *names, **environment)

    def totals(self, *names: str, **environment: str) -> list[float]:
        found: list[float] = self.use(*names, **environment)["totals"]
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# -- what is relied upon in Numba --------------------------------------------------------------------------------------


def test_a_second_process_reads_what_the_first_compiled(place: Place) -> None:
    """Fails where a release of Numba changes what `kernel_cache.py` relies on: nothing would be kept, or read."""
    tag = place.write("mine")
    assert place.use(HINGE, tag) == {"totals": [HINGE_TOTAL, 14.0], "read": 0, "compiled": 2}
    assert place.use(HINGE, tag) == {"totals": [HINGE_TOTAL, 14.0], "read": 2, "compiled": 0}


# -- a loss that changes -----------------------------------------------------------------------------------------------


def test_an_edited_loss_outside_the_library_gives_new_numbers(place: Place) -> None:
    assert place.totals(place.write("mine", "3.0")) == [14.0]
    assert place.totals(place.write("mine", "5.0")) == [22.0]
    assert place.use(place.write("mine", "3.0")) == {"totals": [14.0], "read": 1, "compiled": 0}


@pytest.mark.parametrize(
    ("imports", "value", "text"),
    [
        ("from .helpers import helper", "helper()", "import numba\n@numba.njit\ndef helper():\n    return {}\n"),
        ("from mine.helpers import CONSTANT", "CONSTANT", "CONSTANT = {}\n"),
        ("from mine import helpers", "helpers.CONSTANT", "CONSTANT = {}\n"),
        ("from .helpers import stub", "stub()", "from numba.extending import overload\ndef stub(): ...\n"
         "@overload(stub)\ndef _stub():\n    return lambda: {}\n"),
    ],
)  # fmt: skip
def test_an_edited_helper_of_the_same_package_gives_new_numbers(
    place: Place, imports: str, value: str, text: str
) -> None:
    assert place.totals(place.write("mine", value, imports, helpers=text.format("3.0"))) == [14.0]
    assert place.totals(place.write("mine", value, imports, helpers=text.format("5.0"))) == [22.0]


def test_an_edited_helper_of_another_package_gives_new_numbers(place: Place) -> None:
    text = "import numba\n@numba.njit\ndef helper():\n    return {}\n"
    tag = place.write("mine", "helper()", "from others import helper")
    (place.folder / "others.py").write_text(text.format("3.0"))
    assert place.totals(tag) == [14.0]
    (place.folder / "others.py").write_text(text.format("5.0"))
    assert place.totals(tag) == [22.0]


def test_a_constant_from_the_environment_is_not_taken_from_the_cache(place: Place) -> None:
    tag = place.write("mine", "CONSTANT", "import os\nCONSTANT = float(os.environ['CONSTANT'])")
    assert place.totals(tag, CONSTANT="3.0") == [14.0]
    assert place.totals(tag, CONSTANT="5.0") == [22.0]


def test_a_loss_edited_on_disk_after_its_import_is_not_kept_as_the_new_one(place: Place) -> None:
    tag = place.write("mine", "3.0")
    (place.folder / "mine" / "new.txt").write_text(
        (place.folder / "mine" / "loss.py").read_text().replace("3.0", "5.0")
    )
    edit = "import shutil, mine.loss\nshutil.copy(mine.loss.__file__[:-7] + 'new.txt', mine.loss.__file__)\n"
    assert place.run(edit + USE, tag)["totals"] == [14.0]
    assert place.totals(tag) == [22.0]


def test_tags_of_the_same_name_in_two_packages_keep_their_code(place: Place) -> None:
    one, two = place.write("one", "3.0"), place.write("two", "5.0")
    assert place.totals(one, two) == [14.0, 22.0]
    assert place.use(two, one) == {"totals": [22.0, 14.0], "read": 2, "compiled": 0}


def test_a_tag_of_the_name_of_one_of_the_librarys_own_keeps_its_code(place: Place) -> None:
    tag = place.write("mine")
    source = place.folder / "mine" / "loss.py"
    source.write_text(source.read_text().replace("Tag", "HingeTag").replace("offset", "width"))
    tag = tag.replace("Tag", "HingeTag")
    assert place.totals(HINGE, tag) == [HINGE_TOTAL, 14.0]
    assert place.totals(tag, HINGE) == [14.0, HINGE_TOTAL]


def test_a_module_that_is_reloaded_runs_its_new_code(place: Place) -> None:
    tag = place.write("mine", "5.0")
    place.use(tag)  # both versions are on disk, compiled alike
    place.write("mine", "3.0")
    (place.folder / "mine" / "new.txt").write_text(
        (place.folder / "mine" / "loss.py").read_text().replace("3.0", "5.0")
    )
    again = (
        "\nimport mine.loss, shutil\nshutil.copy(mine.loss.__file__[:-7] + 'new.txt', mine.loss.__file__)\n"
        "importlib.reload(mine.loss)\nprint(json.dumps([totals[0], total(sys.argv[1])]))\n"
    )
    script = USE.replace("print(json.dumps({", "({").rstrip().removesuffix("))") + ")" + again
    assert place.run(script, tag) == [14.0, 22.0]


# -- kernels of others -------------------------------------------------------------------------------------------------


def test_a_loss_outside_the_library_leaves_nothing_in_the_librarys_folder(place: Place) -> None:
    place.use(HINGE)
    before = place.files()
    place.use(place.write("mine"))
    assert set(place.files()) - set(before) == set(place.files("losses"))
    assert len(place.files("losses")) == 1


def test_a_removed_package_leaves_other_losses_working(place: Place) -> None:
    place.use(place.write("mine"), HINGE)
    shutil.rmtree(place.folder / "mine")
    assert place.use(HINGE) == {"totals": [HINGE_TOTAL], "read": 1, "compiled": 0}


def test_an_index_of_numbas_own_cache_that_names_a_removed_package_is_no_error(place: Place) -> None:
    """As versions before this cache left it, in the folder that is used today."""
    old = (
        "import numba\nfrom numba.core.caching import FunctionCache\nfrom dpadmm.problems.kernels import margins\n"
        "numba.config.CACHE_DIR = margins.values._cache.cache_path\n"
        "margins.values._cache = FunctionCache(margins.values.py_func)\n"
    )
    place.run(old + USE, place.write("mine"))
    assert [file for file in place.files() if file.suffix == ".nbi"]
    shutil.rmtree(place.folder / "mine")
    assert place.totals(HINGE) == [HINGE_TOTAL]


def test_a_loss_without_a_source_is_compiled_in_memory(place: Place) -> None:
    script = LOSS.format(value="3.0", imports="") + USE
    assert place.run(script, "__main__.Tag")["totals"] == [14.0]
    assert not place.files("losses")


# -- what cannot be read or written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: b"garbage" * 100,
        lambda content: content[:-400] + bytes(len(content[-400:])),
    ],
    ids=["empty", "truncated", "garbage", "zeros at the end"],
)
def test_damaged_files_are_written_anew(place: Place, damage: Any) -> None:
    tag = place.write("mine")
    place.use(HINGE, tag)
    files = place.files()
    assert len(files) >= 3
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    assert place.use(HINGE, tag) == {"totals": [HINGE_TOTAL, 14.0], "read": 0, "compiled": 2}
    assert place.use(HINGE, tag) == {"totals": [HINGE_TOTAL, 14.0], "read": 2, "compiled": 0}


def test_a_file_whose_pickle_names_a_module_that_is_gone_is_written_anew(place: Place) -> None:
    place.use(HINGE)
    content = b"cno_such_module\nThing\n."  # a pickle of a class
    for file in place.files():
        file.write_bytes(hashlib.sha256(content).digest() + content)
    assert place.use(HINGE) == {"totals": [HINGE_TOTAL], "read": 0, "compiled": 1}


def test_folders_in_place_of_files_are_no_error(place: Place) -> None:
    place.use(HINGE)
    for file in place.files():
        file.unlink()
        file.mkdir()
    assert place.totals(HINGE) == [HINGE_TOTAL]


@pytest.mark.parametrize("blocked", ["cache", "cache/dpadmm"])
def test_a_cache_that_cannot_be_written_is_no_error_and_nothing_is_written_elsewhere(
    place: Place, blocked: str
) -> None:
    """A file in place of the folder stops everybody, root too. Numba would fall back on the folders of the sources."""
    (place.folder / blocked).parent.mkdir(exist_ok=True)
    (place.folder / blocked).write_text("")
    tag = place.write("mine")
    home = place.folder / "home"
    home.mkdir()
    assert place.totals(HINGE, tag, HOME=str(home)) == [HINGE_TOTAL, 14.0]
    assert not list(home.iterdir())
    assert not list(place.folder.rglob("*.nb?"))


def test_a_read_only_cache_is_read(place: Place) -> None:
    tag = place.write("mine")
    place.use(HINGE)
    for folder in [place.cache, *(each for each in place.cache.rglob("*") if each.is_dir())]:
        folder.chmod(0o555)
    try:
        found = place.use(HINGE, tag)
    finally:
        for folder in [place.cache, *(each for each in place.cache.rglob("*") if each.is_dir())]:
            folder.chmod(0o755)
    assert found == {"totals": [HINGE_TOTAL, 14.0], "read": 1, "compiled": 1}


def test_processes_that_write_at_once_leave_a_cache_that_works(place: Place) -> None:
    tag = place.write("mine")
    many = (
        "import subprocess, sys\n"
        "each = [subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=subprocess.PIPE) for _ in range(3)]\n"
        "outputs = [one.communicate()[0].decode() for one in each]\nprint('[' + ','.join(outputs) + ']')\n"
    )
    assert [found["totals"] for found in place.run(many, USE, HINGE, tag)] == [[HINGE_TOTAL, 14.0]] * 3
    assert place.use(HINGE, tag)["read"] == 2
    assert all(file.suffix == ".kernel" for file in place.files())
