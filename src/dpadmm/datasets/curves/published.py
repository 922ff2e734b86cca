"""Published curves: spectra of meat, and a year's weather. Neither ships; `directory.find` finds the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpadmm._tables import csv_bytes
from dpadmm.datasets.cells import first, numbers, place, texts
from dpadmm.datasets.curves.bases import Basis, parse
from dpadmm.datasets.curves.curves import Curves
from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.curves.smoothing import scores
from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.directory import contents, find
from dpadmm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

TECATOR_ABOUT = (
    "near infrared spectra of chopped meat and its fat, by a Tecator Infratec Food and Feed Analyzer "
    "(Thodberg 1995, StatLib, public domain); needs a file that does not ship"
)
WEATHER_ABOUT = (
    "daily temperature and precipitation of 35 Canadian weather stations, means of 1960 to 1994 "
    "(Ramsay & Silverman 2005); needs files that do not ship"
)

_TECATOR = "tecator.csv"
TECATOR_FILES = {_TECATOR: "spectra in columns ch001 to ch100, and moisture, fat, protein"}
_TEMPERATURE, _PRECIPITATION, _STATIONS = (
    "canadian_weather.csv",
    "canadian_weather_precip.csv",
    "canadian_weather_meta.csv",
)
WEATHER_FILES = {
    _TEMPERATURE: "a row for each day, a column of temperatures for each station",
    _PRECIPITATION: "the same of precipitation, in mm",
    _STATIONS: "columns station and region",
}

# Rows are clipped to these norms where the user names none. A curve's norm is its root mean square, so they are in
# the unit of the curve: at an absorbance of 5 a hundred-thousandth of the light comes through, and a year in Canada
# is well within 30 degrees of freezing, on average. Both are round numbers that were known before the data.
TECATOR_NORM, WEATHER_NORM = 5.0, 30.0

_CHANNELS = tuple(f"ch{channel:03d}" for channel in range(1, 101))
# StatLib's order: 129 to train, 43 to monitor training, 43 to test, then 8 with more fat and 17 with more protein
# than any of these, to extrapolate to.
_SAMPLES, _TRAINED, _TESTED = 240, 172, 215
_DAYS = 365


def load_tecator(
    directory: str | Path | None = None, basis: str | Basis = "bspline:15", smoothing: float = 0.0
) -> Dataset:
    """172 spectra of meat and its percentage of fat; held out are the 43 that were published as the test set.

    Seven of the 43 are to the last digit spectra of the 172, as published. The 25 spectra meant for extrapolation
    are left out. A spectrum's time is the channel, 1 to 100, for 850 to 1050 nm.
    """
    basis = parse(basis)
    path = find("tecator", "functional", TECATOR_FILES, directory)[_TECATOR]
    table = _table(path)
    if table.num_rows != _SAMPLES:
        raise InputError(f"{path} has {table.num_rows} samples; Tecator's are {_SAMPLES}. Fetch the file again.")
    encoder = CurveEncoder(_CHANNELS, tuple(float(channel + 1) for channel in range(100)), basis.text, smoothing)
    everything = Dataset(
        name="tecator",
        features=encoder.transform(table),
        targets=numbers(table, "fat"),
        classes=None,
        feature_names=encoder.feature_names,
        encoder=encoder,
        about=TECATOR_ABOUT,
        norm_bound=TECATOR_NORM,
        basis=basis,
    )
    held_out = replace(everything.take(slice(_TRAINED, _TESTED)), name="tecator (held out)")
    return replace(everything.take(slice(0, _TRAINED)), held_out=held_out)


def load_weather(
    directory: str | Path | None = None, basis: str | Basis = "fourier:11", smoothing: float = 0.0
) -> Dataset:
    """35 stations: a year of temperatures, and log10 of the year's precipitation in mm; a region owns its stations."""
    basis = parse(basis)
    paths = find("canadian-weather", "functional", WEATHER_FILES, directory)
    stations = _table(paths[_STATIONS])
    names = texts(stations, "station").to_pylist()
    temperatures = _by_station(paths[_TEMPERATURE], names)
    rain = _by_station(paths[_PRECIPITATION], names).sum(axis=1)
    dry = first(rain <= 0)
    if dry is not None:
        raise InputError(
            f"{paths[_PRECIPITATION]}: column {names[dry]!r} adds up to {rain[dry]:g} mm, which has no logarithm."
        )
    # A day's mean stands for its noon; then a year is the interval, and its end is its beginning.
    curves = Curves.on_grid(np.arange(_DAYS) + 0.5, temperatures, (0.0, float(_DAYS)))
    return Dataset(
        name="canadian-weather",
        features=scores(curves, basis, smoothing),
        targets=np.log10(rain),
        classes=None,
        feature_names=basis.feature_names,
        owners=np.array(texts(stations, "region").to_pylist(), dtype=str),
        about=WEATHER_ABOUT,
        norm_bound=WEATHER_NORM,
        basis=basis,
    )


def _by_station(path: Path, names: list[str]) -> np.ndarray:
    """(stations, days): the file has a row for each day."""
    table = _table(path)
    days = numbers(table, "day")
    if len(days) != _DAYS:
        raise InputError(f"{path} has {len(days)} days; a year of {_DAYS} is needed.")
    wrong = first(days != np.arange(1, _DAYS + 1))
    if wrong is not None:
        raise InputError(f"{path}, {place('day', wrong)} is {days[wrong]:g}; the days must be 1 to {_DAYS}, in order.")
    return np.array([numbers(table, name) for name in names])


def _table(path: Path) -> pyarrow.Table:
    import pyarrow as pa

    try:
        return csv_bytes(contents(path), str(path))
    except pa.ArrowException as error:
        raise InputError(f"cannot read {path}: {error}; fetch or copy it again.") from None
