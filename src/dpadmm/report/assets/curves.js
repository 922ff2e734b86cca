// Drawing lines: axes, curves with bands and gaps, the crosshair, and zoom.

const LINES_HEIGHT = 280;
const TOLD = 12; // values in one tooltip; the table has all

function drawLines(data, width, view) {
  const shown = data.curves.filter((curve) => !view.hidden.has(curve.key));
  const domain = view.zoom ?? widened(extent(data.stops) ?? [0, 1], data.logX);
  const frame = linesFrame(data, shown, domain, width);
  const marks = overlay(width, LINES_HEIGHT);
  const paths = new Map(shown.map((curve) => [curve, drawnCurve(curve, frame, domain)]));
  const clip = `clip-${data.chart.id}`;
  const opening = shape("rect", { x: frame.left, y: 0, width: frame.right - frame.left, height: LINES_HEIGHT });
  const svg = shape(
    "svg",
    { viewBox: `0 0 ${width} ${LINES_HEIGHT}`, "data-from": domain[0], "data-to": domain[1] },
    shape("clipPath", { id: clip }, opening),
    axes(data, frame),
    shape("g", { "clip-path": `url(#${clip})` }, ...paths.values()),
  );
  const [first, last] = [placeOf(data.stops, domain[0]), afterLast(data.stops, domain[1]) - 1];
  return {
    svg,
    marks,
    first,
    last,
    find: (x) => clamp(nearest(data.stops, frame.x.from(x)), first, last),
    show: (stop, y) => crosshair(data, shown, frame, paths, marks, stop, y),
    range: (one, other) => rangeBetween(data.stops, frame, one, other),
    around: (stop, factor) => zoomedAround(data, domain, stop, factor),
    select: (one, other) => marks.replaceChildren(selection(frame, one, other)),
  };
}

function afterLast(sorted, value) {
  const place = placeOf(sorted, value);
  return sorted[place] === value ? place + 1 : place;
}

function linesFrame(data, shown, domain, width) {
  const inside = shown.flatMap((curve) => [...visibleExtent(curve, domain)]);
  const rangeY = roomy(extent(inside) ?? [data.logY ? 1 : 0, 1], data.logY, 5);
  const [top, bottom] = [26, LINES_HEIGHT - 40];
  const y = scaleOf(rangeY, [bottom, top], data.logY);
  const ticksY = y.ticks(5);
  const left = Math.max(46, 14 + 7 * Math.max(...ticksY.map((tick) => tickText(tick).length)));
  const right = width - 14;
  const x = scaleOf(domain, [left, right], data.logX);
  return { x, y, ticksY, left, right, top, bottom };
}

/** Of what lies in the shown range; of its neighbours where a zoom falls between two points. */
function visibleExtent(curve, [from, to]) {
  let [first, end] = [placeOf(curve.x, from), afterLast(curve.x, to)];
  if (first === end) [first, end] = [Math.max(0, first - 1), end + 1];
  const columns = [curve.y, curve.low, curve.high].filter((values) => values !== null);
  return columns.flatMap((values) => extent(values.slice(first, end)) ?? []);
}

function axes(data, frame) {
  const { x, y, left, right, top, bottom } = frame;
  const room = Math.max(2, Math.floor((right - left) / 80));
  const group = shape("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of frame.ticksY) {
    const height = y.to(tick);
    group.append(shape("line", { class: "grid", x1: left, x2: right, y1: height, y2: height }));
    group.append(shape("text", { x: left - 8, y: height + 4, "text-anchor": "end" }, tickText(tick)));
  }
  group.append(shape("line", { class: "base", x1: left, x2: right, y1: bottom, y2: bottom }));
  for (const tick of x.ticks(room, data.whole)) {
    const place = x.to(tick);
    group.append(shape("line", { class: "base", x1: place, x2: place, y1: bottom, y2: bottom + 4 }));
    group.append(shape("text", { x: place, y: bottom + 18, "text-anchor": "middle" }, tickText(tick)));
  }
  const scale = (axis, log) => (axis?.label ?? "") + (log ? " (log scale)" : "");
  group.append(shape("text", { x: left, y: top - 13 }, scale(data.chart.y, data.logY)));
  const middle = (left + right) / 2;
  group.append(shape("text", { x: middle, y: bottom + 36, "text-anchor": "middle" }, scale(data.chart.x, data.logX)));
  return group;
}

/** The line, its band, and dots where a value has no neighbour to be joined with. */
function drawnCurve(curve, frame, [from, to]) {
  const first = Math.max(0, placeOf(curve.x, from) - 1);
  const end = Math.min(curve.x.length, afterLast(curve.x, to) + 1);
  const place = (index, values) => `${tenth(frame.x.to(curve.x[index]))} ${tenth(frame.y.to(values[index]))}`;
  const inside = (index) => curve.x[index] >= from && curve.x[index] <= to;
  const parts = { line: [], dots: [], band: [] };
  let points = 0;
  for (const piece of pieces(first, end, [curve.y])) {
    points += piece.filter(inside).length;
    if (piece.length === 1) parts.dots.push(`M${place(piece[0], curve.y)}h0`);
    else parts.line.push("M" + piece.map((index) => place(index, curve.y)).join("L"));
  }
  for (const piece of curve.low && curve.high ? pieces(first, end, [curve.low, curve.high]) : []) {
    const upper = piece.map((index) => place(index, curve.high));
    const lower = piece.map((index) => place(index, curve.low)).reverse();
    parts.band.push(`M${[...upper, ...lower].join("L")}Z`);
  }
  const group = shape("g", { class: `series ${curve.look.style} ${curve.look.colour}`, "data-points": points });
  if (parts.band.length) group.append(shape("path", { class: "band", d: parts.band.join("") }));
  if (parts.line.length) {
    group.append(shape("path", { class: "curve", d: parts.line.join(""), "stroke-dasharray": curve.look.dash }));
  }
  if (parts.dots.length) group.append(shape("path", { class: "dots", d: parts.dots.join("") }));
  return group;
}

function tenth(pixel) {
  return Math.round(pixel * 10) / 10;
}

/** Runs of places where all these have a value. */
function pieces(first, end, columns) {
  const found = [];
  let joined = false;
  for (let index = first; index < end; index++) {
    const here = columns.every((values) => values[index] !== null);
    if (here && joined) found.at(-1).push(index);
    else if (here) found.push([index]);
    joined = here;
  }
  return found;
}

/** At the pointer's height the nearest curves come first; the keyboard has no height. */
function crosshair(data, shown, frame, paths, marks, stop, pointer) {
  const x = data.stops[stop];
  const place = frame.x.to(x);
  const found = shown.map((curve) => pointAt(curve, x)).filter((point) => point !== null);
  const distance = (point) => Math.abs(frame.y.to(point.y) - pointer);
  if (pointer !== null) found.sort((one, other) => distance(one) - distance(other));
  const told = found.slice(0, TOLD);
  const near = pointer !== null && found.length ? [paths.get(found[0].curve).cloneNode(true)] : [];
  marks.replaceChildren(
    shape("g", { class: "near", "clip-path": `url(#clip-${data.chart.id})` }, ...near),
    shape("line", { class: "crosshair", x1: place, x2: place, y1: frame.top, y2: frame.bottom }),
    ...told.map((point) => markOf(point, frame, place)).filter((mark) => mark !== null),
  );
  const rows = told.map((point) => {
    const { look, label } = point.curve;
    return { mark: swatch(look), name: label, value: valueText(point, x) };
  });
  const more = found.length - told.length;
  const note = more > 0 ? `and ${more} more, all under Numbers` : "";
  return { x: place, y: pointer ?? frame.top + 10, title: `${data.chart.x?.label ?? ""} ${x}`.trim(), rows, note };
}

/** On the curve's own point, unless a zoom has put that outside; on the crosshair where the curve is level. */
function markOf({ curve, x, y }, frame, place) {
  const own = curve.level ? place : frame.x.to(x);
  if (own < frame.left - 1 || own > frame.right + 1) return null;
  return shape("circle", { class: `mark ${curve.look.colour}`, cx: own, cy: frame.y.to(y), r: 4 });
}

/** The value with its band, and where it is from if not from here. */
function valueText({ curve, place, x, y }, here) {
  const band = [curve.low?.[place], curve.high?.[place]];
  const known = band.every((value) => value !== null && value !== undefined);
  const elsewhere = x !== here && !curve.level;
  return `${y}` + (known ? ` (${band[0]} to ${band[1]})` : "") + (elsewhere ? ` at ${x}` : "");
}

/** The range between two pixels, if at least two points lie in it. */
function rangeBetween(stops, frame, one, other) {
  const pixels = [one, other].map((pixel) => clamp(pixel, frame.left, frame.right)).sort((a, b) => a - b);
  return holdsTwo(stops, pixels.map(frame.x.from));
}

function zoomedAround(data, [from, to], stop, factor) {
  const scale = scaleOf([from, to], [0, 1], data.logX);
  const middle = scale.to(data.stops[stop]);
  const [least, most] = extent(data.stops);
  const range = [middle - factor * middle, middle + factor * (1 - middle)].map(scale.from);
  const limited = [Math.max(least, range[0]), Math.min(most, range[1])];
  return limited[0] <= least && limited[1] >= most ? null : (holdsTwo(data.stops, limited) ?? [from, to]);
}

function holdsTwo(stops, range) {
  const [from, to] = range.map((value) => Number(value.toPrecision(12))); // a hair beside a point is on it
  return afterLast(stops, to) - placeOf(stops, from) >= 2 ? [from, to] : null;
}

function selection(frame, one, other) {
  const [from, to] = [one, other].map((pixel) => clamp(pixel, frame.left, frame.right)).sort((a, b) => a - b);
  const height = frame.bottom - frame.top;
  return shape("rect", { class: "selection", x: from, width: to - from, y: frame.top, height });
}
