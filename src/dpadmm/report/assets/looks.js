// Colours and dashes. The colours themselves are in the style sheet, one set for light and one for dark.

const COLOURS = 8;
const DASHES = ["", "9 4", "2 4", "12 4 2 4", "5 3"];
const LIMIT = "6 5";

/** How every series is drawn: a colour per run or, where all are of one run, per series; dashes tell apart too. */
function looksOf(chart, runs) {
  const drawn = new Set(chart.series.map((series) => series.run));
  const several = runs.length > 1 && (chart.series.length === 1 || drawn.size > 1);
  const counts = new Map();
  const places = chart.series.map((series) => {
    const group = several ? `${series.run} ${series.style}` : series.style;
    counts.set(group, (counts.get(group) ?? 0) + 1);
    return counts.get(group) - 1;
  });
  const alone = Math.max(0, ...counts.values()) === 1;
  return chart.series.map((series, index) => {
    const place = several ? series.run : series.style === "line" ? places[index] : 0;
    const dash = DASHES[(alone ? place : places[index]) % DASHES.length];
    const colour = series.style === "limit" && !several ? "colour-limit" : `colour-${place % COLOURS}`;
    return { colour, dash: { line: dash, thin: "", limit: LIMIT }[series.style], style: series.style };
  });
}

/** The name of a series, with its run's where there are several runs and it does not say so itself. */
function labelOf(series, runs) {
  const run = runs[series.run]?.name ?? "";
  if (runs.length < 2 || series.name.includes(run)) return series.name;
  return `${run}: ${series.name}`;
}

/** What can be switched off: series one by one, or many thin ones together. */
function legendOf(curves, mark = swatch) {
  const thin = curves.filter((curve) => curve.look.style === "thin");
  const together = thin.length > 3; // they look alike
  const single = together ? curves.filter((curve) => curve.look.style !== "thin") : curves;
  const entries = single.map((curve) => ({ text: curve.label, keys: [curve.key], mark: mark(curve.look) }));
  for (const run of new Set(together ? thin.map((curve) => curve.run) : [])) {
    const group = thin.filter((curve) => curve.run === run);
    const text = `${group[0].label} … ${group.at(-1).label} (${group.length})`;
    entries.push({ text, keys: group.map((curve) => curve.key), mark: mark(group[0].look) });
  }
  return entries.length > 1 ? entries : [];
}
