// Lines over a numeric axis: the numbers, in words and in a table. Drawing them is in curves.js.

function lines(chart, runs) {
  const looks = looksOf(chart, runs);
  const curves = chart.series.map((series, index) => curveOf(series, chart, looks[index], labelOf(series, runs)));
  const stops = commonPlaces(curves);
  const logX = Boolean(chart.x?.log) && stops.every((value) => value > 0);
  const logY = Boolean(chart.y?.log) && curves.every(isPositive);
  const data = { chart, curves, stops, logX, logY, whole: stops.every(Number.isInteger) };
  return {
    legend: legendOf(curves),
    words: linesInWords(data),
    tables: () => [linesTable(data)],
    draw: (width, view) => drawLines(data, width, view),
  };
}

/** A series with its own places in rising order, and null where there is nothing. */
function curveOf(series, chart, look, label) {
  const places = series.x ?? chart.at ?? [];
  const order = [...series.y.keys()].filter((index) => Number.isFinite(places[index]));
  const rising = order.every((each, place) => place === 0 || places[order[place - 1]] <= places[each]);
  if (!rising) order.sort((one, other) => places[one] - places[other]);
  const same = rising && order.length === places.length;
  const pick = (values) => (values ? order.map((index) => values[index] ?? null) : null);
  const x = same ? places : pick(places);
  const key = `${series.run} ${series.name}`;
  const [y, low, high] = [series.y, series.low, series.high].map(pick);
  const level = look.style === "limit" && y.every((value) => value === y[0]);
  return { label, look, key, run: series.run, level, x, y, low, high };
}

function isPositive(curve) {
  const columns = [curve.y, curve.low, curve.high].filter((values) => values !== null);
  return columns.every((values) => values.every((value) => value === null || value > 0));
}

/** Every x of any curve, rising: where the crosshair can stop. */
function commonPlaces(curves) {
  const different = [...new Set(curves.map((curve) => curve.x))];
  if (different.length === 1) return [...new Set(different[0])];
  return [...new Set(different.flat())].sort((one, other) => one - other);
}

/** The curve's point at this x or nearest to it, if x lies within the curve: lines may have points at other places. */
function pointAt(curve, x) {
  if (!(x >= curve.x[0] && x <= curve.x.at(-1))) return null;
  const place = nearest(curve.x, x);
  return curve.y[place] === null ? null : { curve, place, x: curve.x[place], y: curve.y[place] };
}

function linesInWords({ chart, curves, stops }) {
  const range = extent(stops);
  if (range === null) return "There are no values yet.";
  const said = curves.slice(0, 6).map((curve) => {
    const found = extent(curve.y);
    if (found === null) return `${curve.label}: no values.`;
    const last = curve.y.findLast((value) => value !== null);
    return `${curve.label}: from ${found[0]} to ${found[1]}, last ${last}.`;
  });
  const rest = curves.length > 6 ? [restInWords(curves)] : [];
  return [`Over ${chart.x?.label || "the axis"} from ${range[0]} to ${range[1]}.`, ...said, ...rest].join(" ");
}

function restInWords(curves) {
  const found = extent(curves.map((curve) => curve.y.findLast((value) => value !== null)));
  return found === null ? "" : `All ${curves.length} series: last values from ${found[0]} to ${found[1]}.`;
}

function linesTable({ chart, curves, stops }) {
  const columns = curves.flatMap((curve) => [
    { curve, values: curve.y, name: curve.label },
    ...(curve.low ? [{ curve, values: curve.low, name: `${curve.label}, low` }] : []),
    ...(curve.high ? [{ curve, values: curve.high, name: `${curve.label}, high` }] : []),
  ]);
  const rowAt = (x) => [x, ...columns.map(({ curve, values }) => exactly(curve, values, x))];
  const head = [chart.x?.label || "x", ...columns.map((each) => each.name)];
  return { caption: chart.title, head, rows: stops.map(rowAt) };
}

function exactly(curve, values, x) {
  const place = placeOf(curve.x, x);
  return curve.x[place] === x ? values[place] : null;
}
