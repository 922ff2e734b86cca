"""Where files are looked for, in which order, and what is said when they are not there."""

import pytest

from dpadmm.datasets.directory import find
from dpadmm.datasets.registry import DATASETS, load
from dpadmm.errors import InputError

FILES = {"one": "the first", "two": "the second"}


@pytest.fixture(autouse=True)
def no_directory_known(monkeypatch):
    monkeypatch.delenv("DPADMM_DATA", raising=False)


def put(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_in_the_folder_or_beside_it_packed_or_not(tmp_path):
    one, two = put(tmp_path / "sets" / "one"), put(tmp_path / "two.gz")
    assert find("set", "sets", FILES, tmp_path) == find("set", "sets", FILES, str(tmp_path)) == {"one": one, "two": two}
    nearer = put(tmp_path / "sets" / "two.gz")
    assert find("set", "sets", FILES, tmp_path)["two"] == nearer
    plain = put(tmp_path / "sets" / "two")
    assert find("set", "sets", FILES, tmp_path)["two"] == plain


def test_the_directory_given_goes_before_the_environment(tmp_path, monkeypatch):
    for name in ("given", "known"):
        put(tmp_path / name / "one")
        put(tmp_path / name / "two")
    monkeypatch.setenv("DPADMM_DATA", str(tmp_path / "known"))
    assert find("set", "sets", FILES)["one"] == tmp_path / "known" / "one"
    assert find("set", "sets", FILES, tmp_path / "given")["one"] == tmp_path / "given" / "one"
    # Files are not gathered from both: a mix of two copies would be nobody's data set.
    (tmp_path / "given" / "two").unlink()
    with pytest.raises(InputError, match="lacks two"):
        find("set", "sets", FILES, tmp_path / "given")


def test_only_what_is_missing_is_listed(tmp_path):
    put(tmp_path / "one")
    (tmp_path / "two").mkdir()  # a directory is not a file
    with pytest.raises(InputError) as caught:
        find("set", "sets", FILES, tmp_path)
    message = str(caught.value)
    for word in (
        "'set'",
        "two (the second)",
        f"{tmp_path / 'sets'} and {tmp_path}",
        ".gz",
        "--data-dir",
        "DPADMM_DATA",
    ):
        assert word in message
    assert "the first" not in message
    assert "\n" not in message


@pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if source.needs])
@pytest.mark.parametrize("where", [None, "empty", "nowhere"])
@pytest.mark.parametrize("by_environment", [False, True])
def test_every_set_lists_every_file_it_lacks(tmp_path, monkeypatch, name, where, by_environment):
    (tmp_path / "empty").mkdir()
    directory = None if where is None else str(tmp_path / where)
    if by_environment:
        monkeypatch.setenv("DPADMM_DATA", directory or "")
    with pytest.raises(InputError) as caught:
        load(name, directory=None if by_environment else directory)
    message = str(caught.value)
    said = {None: "no directory was named", "empty": f"looked in {directory}", "nowhere": f"no directory {directory}"}
    for word in (
        f"'{name}'",
        said[where],
        "--data-dir",
        "DPADMM_DATA",
        *(f"{file} (" for file in DATASETS[name].needs),
    ):
        assert word in message


def test_a_directory_that_cannot_be_looked_into():
    with pytest.raises(InputError, match="cannot look for the files of 'mnist'"):
        load("mnist", directory="x" * 10_000)
