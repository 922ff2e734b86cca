// Horizontal bars by name: several series side by side, to both sides of zero; a limit is a stroke across them.

function bars(chart, runs) {
  const looks = looksOf(chart, runs);
  const names = chart.names ?? [];
  const groups = chart.series.map((series, index) => ({
    ...series,
    look: looks[index],
    label: labelOf(series, runs),
    key: `${series.run} ${series.name}`,
  }));
  const head = [chart.x?.label || "name", ...groups.map((group) => group.label)];
  const rows = () => names.map((name, row) => [name, ...groups.map((group) => group.y[row] ?? null)]);
  return {
    legend: legendOf(groups, dot),
    words: barsInWords(groups, names),
    tables: () => [{ caption: chart.title, head, rows: rows() }],
    draw: (width, view) => drawBars(chart, names, groups.filter((group) => !view.hidden.has(group.key)), width),
  };
}

function drawBars(chart, names, groups, width) {
  const frame = barsFrame(names, groups, width);
  const marks = overlay(width, frame.height);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${frame.height}` }, barAxes(chart, names, frame));
  for (const [place, group] of groups.entries()) {
    const drawn = shape("g", { class: `series ${group.look.style} ${group.look.colour}` });
    const shapes = names.map((_, row) => barOf(group, row, place, frame)).filter((each) => each !== null);
    drawn.append(...shapes);
    drawn.setAttribute("data-points", shapes.length);
    svg.append(drawn);
  }
  return {
    svg,
    marks,
    first: 0,
    last: names.length - 1,
    find: (_, y) => clamp(Math.floor((y - frame.top) / frame.row), 0, names.length - 1),
    show: (stop) => {
      const y = frame.top + stop * frame.row;
      marks.replaceChildren(shape("rect", { class: "chosen", x: 0, y, width, height: frame.row }));
      return barTip(names, groups, frame, stop);
    },
  };
}

function barsFrame(names, groups, width) {
  const side = groups.filter((group) => group.look.style !== "limit").length || 1;
  const thick = names.length > 30 || side > 3 ? 8 : 14;
  const row = Math.max(17, side * thick + 8);
  const longest = Math.max(0, ...names.map((name) => name.length));
  const left = Math.min(width * 0.4, 12 + 6.8 * longest);
  const values = extent([0, ...groups.flatMap((group) => [...group.y, ...(group.low ?? []), ...(group.high ?? [])])]);
  const [top, right] = [4, width - 20];
  const bottom = top + names.length * row;
  const x = scaleOf(roomy(values, false, 4), [left, right], false);
  return { x, left, right, top, bottom, row, thick, side, height: bottom + 40 };
}

function barAxes(chart, names, frame) {
  const group = shape("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of frame.x.ticks(4)) {
    const place = frame.x.to(tick);
    const line = { x1: place, x2: place, y1: frame.top, y2: frame.bottom };
    group.append(shape("line", { class: tick === 0 ? "base" : "grid", ...line }));
    group.append(shape("text", { x: place, y: frame.bottom + 16, "text-anchor": "middle" }, tickText(tick)));
  }
  const fitting = Math.floor((frame.left - 10) / 6.6);
  names.forEach((name, row) => {
    const text = name.length > fitting ? `${name.slice(0, fitting - 1)}…` : name;
    const middle = frame.top + (row + 0.5) * frame.row + 4;
    group.append(shape("text", { class: "name", x: frame.left - 8, y: middle, "text-anchor": "end" }, text));
  });
  const middle = (frame.left + frame.right) / 2;
  group.append(shape("text", { x: middle, y: frame.bottom + 34, "text-anchor": "middle" }, chart.y?.label ?? ""));
  return group;
}

function barOf(group, row, place, frame) {
  const value = group.y[row] ?? null;
  if (value === null) return null;
  const end = frame.x.to(value);
  const top = frame.top + row * frame.row;
  const numbers = { "data-row": row, "data-value": value };
  if (group.look.style === "limit") {
    return shape("line", { class: "curve", x1: end, x2: end, y1: top + 1, y2: top + frame.row - 1, ...numbers });
  }
  const zero = frame.x.to(0);
  const y = top + (frame.row - frame.side * frame.thick) / 2 + place * frame.thick;
  const sizes = { x: Math.min(zero, end), y: y + 0.5, width: Math.abs(end - zero), height: frame.thick - 1 };
  const bar = shape("rect", { class: "bar", rx: 1.5, ...sizes, ...numbers });
  const [low, high] = [group.low?.[row] ?? null, group.high?.[row] ?? null];
  if (low === null || high === null) return bar;
  const [from, to, middle] = [frame.x.to(low), frame.x.to(high), y + frame.thick / 2];
  const ends = `M${from} ${middle - 3}v6M${to} ${middle - 3}v6`;
  return shape("g", {}, bar, shape("path", { class: "whisker", d: `M${from} ${middle}H${to}${ends}` }));
}

function barTip(names, groups, frame, row) {
  const rows = groups.map((group) => ({ mark: dot(group.look), name: group.label, value: barText(group, row) }));
  const values = groups.map((group) => group.y[row] ?? 0);
  return { x: frame.x.to(Math.max(0, ...values)), y: frame.top + row * frame.row, title: names[row], rows, note: "" };
}

function barText(group, row) {
  const [value, low, high] = [group.y[row], group.low?.[row], group.high?.[row]].map((each) => each ?? null);
  if (value === null) return "none";
  return `${value}` + (low === null || high === null ? "" : ` (${low} to ${high})`);
}

function barsInWords(groups, names) {
  const said = groups.slice(0, 6).map((group) => {
    const found = extent(group.y);
    if (found === null) return `${group.label}: no values.`;
    const [least, most] = found.map((value) => names[group.y.indexOf(value)]);
    return `${group.label}: from ${found[0]} (${least}) to ${found[1]} (${most}).`;
  });
  return [`${names.length} names.`, ...said].join(" ");
}
