"""What 0.1.0 has left: models predict and pages are made, although its numbers are others and a key is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dpadmm.engine.output.model import Model
from dpadmm.errors import InputError
from dpadmm.report.gather import gather
from dpadmm.report.page import html
from dpadmm.report.reading import read
from dpadmm.spec import toml

HERE = Path(__file__).parent
RUN = HERE / "run_of_0_1_0"
MODEL = np.array([0.8029162056396675, -0.8499872832498744])


def test_a_model_of_0_1_0_predicts(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,dose\n0.9,0.1\n0.1,0.9\n")
    model = Model.load(RUN)
    np.testing.assert_array_equal(model.coefficients.ravel(), MODEL)
    labels, _ = model.predict(tmp_path / "people.csv")
    assert list(labels) == ["yes", "no"]


def test_a_page_is_made_of_a_run_of_0_1_0() -> None:
    document = gather([RUN])
    (run,) = document.runs
    assert (run.state, run.round) == ("finished", 3)
    assert "epsilon 20.00, delta 0.001 in total" in run.guarantee.exact
    assert "0.1.0" in str(run.facts)
    assert f"{MODEL[1]}"[:6] in html(document)


def test_terms_of_0_1_0_are_reported_with_the_noise_that_was_their_default_then(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(RUN, folder)
    shutil.copy(HERE / "terms_of_0_1_0.json", folder / "terms.json")
    (folder / "columns.toml").write_text("")
    facts = read(folder).facts
    assert [each["mechanism"] for each in facts["privacy"]["noise"]] == ["gamma-norm"]
    assert facts["privacy"]["total"]["epsilon"] == pytest.approx(1.0)


def test_its_spec_is_not_run_again_without_a_word() -> None:
    text = (RUN / "spec.toml").read_text()
    with pytest.raises(InputError, match=r"'precision' in \[run\] of the spec: rows are integers since 0\.2\.0"):
        toml.loads(text)
    assert toml.loads(text, ended=True) == toml.loads(text.replace('precision = "float64"\n', ""))
