"""Adult: 45,222 people of the 1994 US census, and whether they earn more than 50,000 dollars a year.

The two files of the UCI repository ship with the package, compressed and otherwise as published
(data/ATTRIBUTION.md). The bounds and lists below are from published descriptions; none is computed from records.
"""

from __future__ import annotations

import io
import lzma
from importlib.resources import files
from typing import TYPE_CHECKING

from dpadmm.datasets.cells import texts
from dpadmm.datasets.dataset import Dataset, scaled
from dpadmm.datasets.encoding import Category, Encoder, Numeric

if TYPE_CHECKING:
    import pyarrow

ABOUT = "UCI Adult, census income 1994 (Becker & Kohavi 1996, doi:10.24432/C5XW20, CC BY 4.0)"

_CLASSES = ("<=50K", ">50K")

# The order of the fields in the files, from adult.names.
_FIELDS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]


def _category(name: str, values: str) -> Category:
    return Category(name, tuple(values.split()))


# Numbers: round upper bounds of the ranges in the census code book, none taken from the records.
# Categories: the lists of adult.names in their order, but for "Never-worked" in workclass: by the code book such a
# person has no occupation, so the record is never complete.
ADULT_ENCODER = Encoder(
    (
        Numeric("age", 0.0, 100.0),
        Numeric("fnlwgt", 0.0, 2e6),
        Numeric("education-num", 0.0, 16.0),
        Numeric("capital-gain", 0.0, 1e5),
        Numeric("capital-loss", 0.0, 5e3),
        Numeric("hours-per-week", 0.0, 99.0),
        _category(
            "workclass",
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay",
        ),
        _category(
            "education",
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
            "Masters 1st-4th 10th Doctorate 5th-6th Preschool",
        ),
        _category(
            "marital-status",
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
        ),
        _category(
            "occupation",
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
            "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
            "Priv-house-serv Protective-serv Armed-Forces",
        ),
        _category("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
        _category("race", "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
        _category("sex", "Female Male"),
        _category(
            "native-country",
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
            "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico "
            "Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
            "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong "
            "Holand-Netherlands",
        ),
    )
)
"""Adult by published categories and bounds: no record is looked at."""


def adult_file(part: str) -> bytes:
    """adult.data ("data") or adult.test ("test"), as UCI publishes it."""
    return lzma.decompress((files("dpadmm.datasets") / "data" / f"adult.{part}.xz").read_bytes())


def adult_table() -> pyarrow.Table:
    """The complete records, adult.data first, in the order of the files."""
    from pyarrow import csv

    # adult.test opens with a remark and ends its labels with a full stop; adult.data does neither.
    remarkless = adult_file("test").partition(b"\n")[2].replace(b".\n", b"\n")
    lines = (adult_file("data") + remarkless).replace(b", ", b",")
    table = csv.read_csv(
        io.BytesIO(lines),
        read_options=csv.ReadOptions(column_names=_FIELDS),
        convert_options=csv.ConvertOptions(null_values=["?"], strings_can_be_null=True),
    )
    return table.drop_null()  # record by record, so no statistic


def load_adult(scaling: str = "public") -> Dataset:
    """45,222 records of 104 features, by public bounds or, as paper 000 did, by the data's maxima ("max")."""
    import pyarrow.compute as pc

    table = adult_table()
    dataset = Dataset(
        name="adult",
        features=ADULT_ENCODER.transform(table),
        targets=pc.equal(texts(table, "income"), _CLASSES[1]).to_numpy(),
        classes=_CLASSES,
        feature_names=ADULT_ENCODER.feature_names,
        encoder=ADULT_ENCODER,
        about=ABOUT,
    )
    return scaled(dataset, scaling)
