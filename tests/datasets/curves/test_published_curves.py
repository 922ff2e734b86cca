"""Tecator and the Canadian weather: the published files where DPADMM_DATA has them, and made-up ones everywhere."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from dpadmm.datasets import directory
from dpadmm.datasets.curves import coefficient_function, load_tecator, load_weather, published
from dpadmm.errors import InputError


def real(loader, name, files):
    try:
        directory.find(name, "functional", files)
    except InputError as error:
        pytest.skip(str(error))
    return loader()


@pytest.fixture(scope="module")
def tecator():
    return real(load_tecator, "tecator", published.TECATOR_FILES)


@pytest.fixture(scope="module")
def weather():
    return real(load_weather, "canadian-weather", published.WEATHER_FILES)


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A directory with spectra that are straight lines, and three stations whose year is one wave."""
    monkeypatch.delenv("DPADMM_DATA", raising=False)
    height = np.arange(240) / 100
    spectra = {f"ch{c:03d}": 2 + height * (c - 1) / 99 for c in range(1, 101)}
    csv.write_csv(pa.table({"sample": range(1, 241), **spectra, "fat": height * 10}), tmp_path / "tecator.csv")
    days = np.arange(1, 366)
    wave = np.cos(2 * np.pi * (days - 0.5) / 365)
    temperature = {"A": 5 - 10 * wave, "B": 0 * wave, "C": 20 + wave}
    csv.write_csv(pa.table({"day": days, **temperature}), tmp_path / "canadian_weather.csv")
    rain = {"C": np.full(365, 1000 / 365), "A": np.full(365, 100 / 365), "B": np.full(365, 10 / 365)}
    csv.write_csv(pa.table({"day": days, **rain}), tmp_path / "canadian_weather_precip.csv")
    meta = pa.table({"station": ["B", "A", "C"], "region": ["North", "South", "South"]})
    csv.write_csv(meta, tmp_path / "canadian_weather_meta.csv")
    return tmp_path


def test_made_up_spectra(made_up):
    dataset = load_tecator(made_up, "legendre:3")
    assert (len(dataset), len(dataset.held_out)) == (172, 43)
    height = np.arange(172) / 100
    # A line from 2 to 2 + h: its mean, and its slope times the length of t - 1/2.
    expected = np.stack([2 + height / 2, height / np.sqrt(12), np.zeros(172)], axis=1)
    np.testing.assert_allclose(dataset.features, expected, atol=1e-10)
    np.testing.assert_allclose(dataset.targets, height * 10)
    np.testing.assert_allclose(dataset.held_out.targets, np.arange(172, 215) / 10)
    assert (dataset.name, dataset.held_out.name) == ("tecator", "tecator (held out)")
    assert dataset.held_out.held_out is None
    assert dataset.basis.text == dataset.encoder.basis == "legendre:3"
    raw = csv.read_csv(made_up / "tecator.csv")
    np.testing.assert_array_equal(dataset.encoder.transform(raw.slice(0, 172)), dataset.features)


def test_made_up_weather_goes_by_the_names_of_stations(made_up):
    dataset = load_weather(made_up, "fourier:3")
    expected = np.array([[0, 0, 0], [5, 0, -10 / np.sqrt(2)], [20, 0, 1 / np.sqrt(2)]])
    np.testing.assert_allclose(dataset.features, expected, atol=1e-10)
    np.testing.assert_allclose(dataset.targets, [1, 2, 3])
    assert dataset.owners.tolist() == ["North", "South", "South"]
    assert (dataset.norm_bound, dataset.classes, dataset.basis.text) == (30.0, None, "fourier:3")


def test_files_may_be_compressed(made_up):
    plain = load_tecator(made_up, "cosine:3")
    path = made_up / "tecator.csv"
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    np.testing.assert_array_equal(load_tecator(made_up, "cosine:3").features, plain.features)


def edit(path, change):
    table = csv.read_csv(path)
    csv.write_csv(change(table), path)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tecator.csv", lambda table: table.slice(0, 215), "has 215 samples; Tecator's are 240"),
        ("tecator.csv", lambda table: table.drop_columns(["fat"]), "unknown column 'fat'"),
        ("tecator.csv", lambda table: table.drop_columns(["ch050"]), "unknown column 'ch050'"),
        ("canadian_weather.csv", lambda table: table.slice(0, 364), "has 364 days"),
        ("canadian_weather.csv", lambda table: table.take(np.arange(365)[::-1]), "row 1 is 365; the days must be 1"),
        ("canadian_weather.csv", lambda table: table.drop_columns(["B"]), "unknown column 'B'"),
        ("canadian_weather_precip.csv", lambda table: table.drop_columns(["C"]), "unknown column 'C'"),
        (
            "canadian_weather_precip.csv",
            lambda table: table.set_column(1, "C", pa.array(np.zeros(365))),
            "column 'C' adds up to 0 mm",
        ),
        ("canadian_weather_meta.csv", lambda table: table.drop_columns(["region"]), "unknown column 'region'"),
    ],
)
def test_files_that_are_not_what_they_should_be(made_up, file, change, message):
    edit(made_up / file, change)
    with pytest.raises(InputError, match=message):
        (load_tecator if file.startswith("tecator") else load_weather)(made_up)


def test_a_file_that_is_no_table(made_up):
    (made_up / "tecator.csv").write_text("a,b\n1\n2,3,4\n")
    with pytest.raises(InputError, match=r"cannot read .*tecator.csv"):
        load_tecator(made_up)


def test_files_that_are_missing(tmp_path):
    with pytest.raises(InputError, match=r"tecator.csv \(spectra"):
        load_tecator(tmp_path)
    with pytest.raises(InputError, match=r"canadian_weather_meta.csv \(columns station and region\)"):
        load_weather(tmp_path)


def test_tecator_as_published(tecator):
    assert tecator.features.shape == (172, 15)
    assert tecator.held_out.features.shape == (43, 15)
    assert tecator.targets[:3].tolist() == [22.5, 40.1, 8.4]
    assert (tecator.norm_bound, tecator.held_out.norm_bound) == (5.0, 5.0)
    norms = np.linalg.norm(tecator.features, axis=1)
    assert norms.min() > 2
    assert (norms > 5).sum() == 1
    assert "Tecator Infratec" in tecator.about


def test_seven_of_tecators_test_spectra_are_in_training(tecator):
    known = {tuple(row) for row in np.round(tecator.features, 9)}
    assert sum(tuple(row) in known for row in np.round(tecator.held_out.features, 9)) == 7


def test_coefficients_give_tecators_spectra_back(tecator):
    raw = csv.read_csv(directory.find("tecator", "functional", published.TECATOR_FILES)["tecator.csv"])
    spectrum = [raw[f"ch{channel:03d}"][0].as_py() for channel in range(1, 101)]
    rebuilt = coefficient_function(tecator.basis, tecator.features[0], np.linspace(0, 1, 100))
    np.testing.assert_allclose(rebuilt, spectrum, atol=0.03)  # the spectrum goes from 2.6 to 3.4


def test_fat_is_in_the_spectra(tecator):
    """Ordinary least squares on the coefficients: about 2.5 per cent of fat off, where a constant is 13 off."""
    weights = np.linalg.lstsq(tecator.features, tecator.targets)[0]
    rest = tecator.held_out.features @ weights - tecator.held_out.targets
    assert np.sqrt(np.mean(rest**2)) < 3 < tecator.held_out.targets.std() / 4


def test_weather_as_published(weather):
    assert weather.features.shape == (35, 11)
    names, counts = np.unique(weather.owners, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "Arctic": 3, "Atlantic": 15, "Continental": 12, "Pacific": 5,
    }  # fmt: skip
    assert (np.argmin(weather.targets), np.argmax(weather.targets)) == (34, 28)  # Resolute and Prince Rupert
    assert 10 ** weather.targets.min() == pytest.approx(144, abs=1)
    # The first coefficient is the year's mean: coldest in Resolute, warmest in Vancouver or Victoria.
    assert np.argmin(weather.features[:, 0]) == 34
    assert np.argmax(weather.features[:, 0]) in (25, 26)
    assert np.linalg.norm(weather.features, axis=1).max() < 22
