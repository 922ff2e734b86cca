"""Pages in a real browser: what is drawn and told is what the document says, and nothing is loaded."""

from __future__ import annotations

import re
import time

import pytest


def drawn(value):
    """As the document rounds it."""
    return None if value is None else float(f"{value:.5g}")


def counted(chart):
    """How many points of each series, or nodes and edges, have to be drawn."""
    if chart.kind == "network":
        return [len(chart.edges), len(chart.nodes)]
    return [sum(value is not None for value in series.y) for series in chart.series]


@pytest.mark.parametrize("name", ["single", "several", "many", "power", "hostile"])
def test_all_is_drawn_nothing_is_loaded_and_nothing_fails(page, documents, name):
    document = getattr(documents, name)()
    address = page.open(document)
    for chart in document.charts:
        assert page.points(chart.id) == counted(chart), chart.id
    assert page.messages() == []
    assert [each for each in page.requests() if not each.startswith(("data:", "chrome:"))] == [address]
    assert page.ask("window.hacked ?? null") is None


def test_paths_have_as_many_corners_as_the_series_has_values_and_gaps_break_them(show, documents):
    chart = documents.residual_chart(50, 3)
    page = show(documents.document([documents.run()], [chart]))
    paths = page.ask("[...document.querySelectorAll('path.curve')].map((path) => path.getAttribute('d'))")
    assert [len(re.findall("[ML]", path)) for path in paths] == [50, 49, 50]
    assert [path.count("M") for path in paths] == [1, 2, 1]


def test_a_lone_value_is_a_dot_and_a_band_is_an_area(show, documents):
    base = vars(documents.error_chart(3))
    series = type(base["series"][0])
    lone = type(documents.error_chart(3))(**{**base, "series": [series("lone", [1.0, None, 2.0])]})
    page = show(documents.document([documents.run()], [lone]))
    assert page.ask("document.querySelectorAll('.dots')[0].getAttribute('d').match(/M/g).length") == 2
    page = show(documents.single())
    assert page.ask("document.querySelector('#chart-error .band').getAttribute('d').match(/[ML]/g).length") == 200


@pytest.mark.parametrize(("value", "log"), [(1e-6, True), (0.0, False), (-1.0, False)])
def test_a_log_axis_is_linear_where_values_are_not_positive(show, documents, value, log):
    base = vars(documents.residual_chart(3, 2))
    series = type(base["series"][0])
    chart = type(documents.error_chart(3))(**{**base, "series": [series("one", [1.0, value, 2.0])]})
    page = show(documents.document([documents.run()], [chart]))
    assert ("distance (log scale)" in page.ask("document.querySelector('.axes').textContent")) == log


def test_hovering_tells_the_values_of_the_nearest_round(show, documents):
    document = documents.single()
    page = show(document)
    x, y = page.place("error", 41.2 / 99)
    page.point("mouseMoved", x, y)
    (series,) = document.charts[0].series
    value, low, high = (drawn(each[41]) for each in (series.y, series.low, series.high))
    shown = page.tip("error")
    assert shown["title"] == "round 42"
    assert shown["rows"] == [["test error", f"{value} ({low} to {high})"]]
    page.point("mouseMoved", x, 1)
    assert page.tip("error") is None


def test_of_many_lines_those_nearest_to_the_pointer_are_told(show, documents):
    document = documents.document([documents.run()], [documents.residual_chart(30, 40)])
    page = show(document)
    page.point("mouseMoved", *page.place("residuals", 0.0, height=0.1))
    shown = page.tip("residuals")
    values = {series.name: drawn(series.y[0]) for series in document.charts[0].series}
    highest = sorted(values, key=lambda name: -values[name])
    assert len(shown["rows"]) == 12
    assert shown["rows"][0] == [highest[0], str(values[highest[0]])]
    assert all(float(value) == values[name] for name, value in shown["rows"])
    assert "and 28 more" in shown["text"]


def test_lines_with_points_at_other_places_say_where_theirs_are(show, documents):
    base = vars(documents.error_chart(3))
    series = type(base["series"][0])
    both = [series("one", [1.0, 2.0, 3.0], x=[1, 5, 9]), series("two", [4.0, 5.0, 6.0], x=[1, 6, 9])]
    limit = series("limit", [7.0, 7.0], x=[1, 9], style="limit")
    chart = type(documents.error_chart(3))(**{**base, "series": [*both, limit]})
    page = show(documents.document([documents.run()], [chart]))
    page.point("mouseMoved", *page.place("error", 0.5, height=0.1))
    shown = page.tip("error")
    assert shown["title"] == "round 5"
    assert shown["rows"] == [["limit", "7"], ["two", "5 at 6"], ["one", "2"]]


def test_bars_nodes_and_edges_tell_what_they_are(show, documents):
    page = show(documents.single())
    left, top, width, height = page.box("#chart-weights rect.bar[data-row='3']")
    page.point("mouseMoved", left + width / 2, top + height / 2)
    shown = page.tip("weights")
    assert (shown["title"], shown["rows"]) == ("capital-gain", [["weights", "1.8"]])
    page = show(documents.power())
    left, top, width, height = page.box("#chart-grid .nodes circle:nth-child(118)")
    page.point("mouseMoved", left + width / 2, top + height / 2)
    shown = page.tip("grid")
    assert (shown["title"], shown["rows"]) == ("bus 118", [["area 10", "1.017"]])
    assert "demand 117 MW" in shown["text"]
    assert page.ask("document.querySelectorAll('.edge.strong').length") == 9
    page.ask("document.getElementById('chart-grid-plot').focus()")
    page.key("End")
    assert page.tip("grid")["title"] == "bus 117 – bus 118"


def test_a_drag_zooms_y_follows_and_reset_goes_back(show, documents):
    document = documents.single()
    page = show(document)
    ticks = "[...document.querySelectorAll('#chart-error .axes text[text-anchor=end]')].map((each) => each.textContent)"
    before = page.ask(ticks)
    page.drag("error", 59.5 / 99, 79.5 / 99)
    start, end = page.ask("(({ from, to }) => [+from, +to])(document.querySelector('#chart-error-plot > svg').dataset)")
    assert (start, end) == (pytest.approx(60.5, abs=0.2), pytest.approx(80.5, abs=0.2))
    assert page.points("error") == [20]
    highest = max(document.charts[0].series[0].high[60:80])
    top = float(page.ask(ticks)[-1])
    assert highest <= top < 2 * highest < float(before[-1])
    page.ask("document.getElementById('chart-error-reset').click()")
    assert page.points("error") == [100]
    assert page.ask(ticks) == before
    assert page.ask("document.getElementById('chart-error-reset').checkVisibility()") is False


def test_a_double_click_goes_back_and_a_range_of_one_round_is_no_zoom(show, documents):
    page = show(documents.single())
    page.drag("error", 0.2, 0.5)
    assert page.points("error") == [30]
    x, y = page.place("error", 0.5)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            page.point(kind, x, y, button="left", clickCount=count)
    assert page.points("error") == [100]
    page.drag("error", 0.5, 0.514)
    assert page.points("error") == [100]


def test_the_keyboard_does_what_the_mouse_does(show, documents):
    document = documents.single()
    page = show(document)
    said = "document.getElementById('announcement').textContent"
    page.ask("document.getElementById('chart-epsilon-plot').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.key(key)
    assert page.tip("epsilon")["title"] == "round 2"
    value = drawn(document.charts[1].series[0].y[1])
    assert page.ask(said) == f"round 2: spent {value}, limit 1"
    page.key("End")
    assert page.ask(said) == "round 100: spent 1, limit 1"
    page.key("+")
    assert page.points("epsilon")[0] == 50
    page.key("-")
    assert page.points("epsilon")[0] == 100
    page.key("Home")
    page.key("ArrowRight", modifiers=8)  # shift
    assert page.tip("epsilon")["title"] == "round 11"
    page.key("Escape")
    assert page.tip("epsilon") is None


def test_zones_stand_in_the_legend_in_their_order(show, documents):
    chart = documents.network_chart(40, 10)
    mixed = type(chart)(**{**vars(chart), "nodes": list(reversed(chart.nodes)), "edges": []})
    page = show(documents.document([documents.run()], [mixed]))
    told = page.ask("[...document.querySelectorAll('.legend button')].map((each) => each.textContent.trim())")
    assert told == [f"area {number}" for number in range(1, 11)]


def test_the_legend_hides_series_one_by_one_or_many_alike(show, documents):
    page = show(documents.several())
    hide = "document.getElementById(arguments[0]).click()"
    pressed = "document.getElementById(arguments[0]).getAttribute('aria-pressed')"
    page.ask(hide, "chart-error-legend-1")
    assert page.ask(pressed, "chart-error-legend-1") == "false"
    assert page.ask("[...document.querySelectorAll('#chart-error g.series')].map((each) => each.classList[2])") == [
        "colour-0",
        "colour-2",
    ]
    page.ask(hide, "chart-error-legend-1")
    assert page.points("error") == [100, 100, 100]
    chart = documents.residual_chart(5, 20)
    limit = type(chart.series[0])("limit", [1.0] * 5, style="limit")
    chart = type(chart)(**{**vars(chart), "series": [*chart.series, limit]})
    page = show(documents.document([documents.run()], [chart]))
    assert page.ask("document.querySelectorAll('.legend button').length") == 2
    page.ask(hide, "chart-residuals-legend-1")
    assert page.points("residuals") == [5]


def test_runs_have_colours_and_dashes_of_their_own(show, documents):
    page = show(documents.several())
    looks = page.ask(
        "[...document.querySelectorAll('#chart-error path.curve')].map((path) =>"
        " [getComputedStyle(path).stroke, path.getAttribute('stroke-dasharray')])"
    )
    assert len({colour for colour, _ in looks}) == len({dash for _, dash in looks}) == 3
    limit = page.ask("document.querySelector('#chart-epsilon .limit path').getAttribute('stroke-dasharray')")
    assert limit
    assert limit not in {dash for _, dash in looks}


def test_tables_hold_the_numbers_and_are_built_when_opened(page, documents):
    document = documents.many(agents=100, rounds=300)
    page.open(document)
    assert page.ask("document.querySelectorAll('.numbers table').length") == 0
    page.ask("document.getElementById('chart-residuals-numbers').click()")
    page.wait("document.querySelector('#chart-residuals table')")
    page.ask("document.getElementById('chart-residuals-rest').click()")
    cells = "(row) => [...row.cells].map((cell) => cell.textContent)"
    read = page.ask(f"[...document.querySelectorAll('#chart-residuals tbody tr')].map({cells})")
    rows = [[float(cell) if cell else None for cell in row] for row in read]
    chart = document.charts[0]
    wanted = zip(chart.at, *([drawn(value) for value in series.y] for series in chart.series), strict=True)
    assert rows == [list(row) for row in wanted]
    assert page.ask("document.querySelector('#chart-residuals caption').textContent") == chart.title
    assert page.ask("[...document.querySelectorAll('#chart-residuals th')].every((each) => each.scope)")


def test_numbers_are_saved_as_csv_in_which_no_name_is_a_formula(show, documents, tmp_path):
    page = show(documents.hostile())
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.ask("document.getElementById('chart-one-numbers').click()")
    page.wait("document.getElementById('chart-one-csv')")
    page.ask("document.getElementById('chart-one-csv').click()")
    saved, limit = tmp_path / "chart-one.csv", time.monotonic() + 20
    while not saved.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    lines = saved.read_bytes().decode().split("\r\n")
    quoted = '"' + documents.HOSTILE.replace("\ud800", "\ufffd").replace('"', '""') + '"'
    assert lines == [f"name,{quoted}", f"{quoted},1", "'=1+1,-2", ""]
