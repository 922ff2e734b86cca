// One chart with all that belongs to it: title, legend, drawing, tooltip, numbers.

const KINDS = { lines, bars, network };
const SIMULATED = "Only a simulation may look at this";

/** What a reader has done to a chart; it outlives the chart's next drawing. */
function newView() {
  return { zoom: null, hidden: new Set(), open: false, stop: null, height: null };
}

function cardOf(chart, runs, view) {
  const kind = KINDS[chart.kind](chart, runs);
  const id = `chart-${chart.id}`;
  const tip = tipElement();
  const keys = KEYS + (chart.kind === "lines" ? ZOOM_KEYS : "");
  const named = { "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-keys` };
  const box = element("div", { class: "plot", id: `${id}-plot`, tabindex: 0, role: "group", ...named });
  const reset = button(`${id}-reset`, () => zoom(null), "Reset zoom");
  let [drawn, width] = [null, 0];

  function draw(newWidth) {
    width = newWidth;
    drawn = kind.draw(width, view);
    filled(drawn.svg, { role: "img", "aria-labelledby": `${id}-title ${id}-words` }, []);
    box.replaceChildren(drawn.svg, drawn.marks, tip);
    reset.hidden = view.zoom === null;
    if (view.stop !== null) pointing.show(view.stop, view.height);
  }

  function zoom(range) {
    view.zoom = range;
    if (range === null && document.activeElement === reset) box.focus({ preventScroll: true });
    draw(width);
  }

  const pointing = listenTo(box, tip, view, () => drawn, zoom);
  const node = element(
    "article",
    { class: "card", id, "aria-labelledby": `${id}-title` },
    element("div", { class: "titled" }, element("h3", { id: `${id}-title` }, chart.title), reset),
    chart.simulated ? element("p", { class: "simulated" }, SIMULATED) : null,
    element("p", { class: "about" }, chart.about ?? ""),
    legendElement(kind.legend, id, view, () => draw(width)),
    box,
    element("p", { class: "unseen", id: `${id}-words` }, kind.words),
    element("p", { class: "unseen", id: `${id}-keys` }, keys),
    numbersElement(kind.tables, id, view),
  );
  return { node, box, draw, isDrawn: () => drawn !== null, width: () => width };
}

function legendElement(entries, id, view, redraw) {
  if (entries.length === 0) return null;
  const buttons = entries.map((entry, place) => {
    const shown = () => !entry.keys.every((key) => view.hidden.has(key));
    const toggle = () => {
      const change = shown() ? "add" : "delete";
      for (const key of entry.keys) view.hidden[change](key);
      made.setAttribute("aria-pressed", shown());
      redraw();
    };
    const made = button(`${id}-legend-${place}`, toggle, entry.mark, element("span", {}, entry.text));
    made.setAttribute("aria-pressed", shown());
    return made;
  });
  return element("div", { class: "legend", role: "group", "aria-label": "Shown" }, ...buttons);
}

/** Built when it is opened: a thousand rows of a hundred agents take longer than all charts. */
function numbersElement(tables, id, view) {
  const box = element("div", {});
  const fill = () => {
    if (box.childElementCount > 0) return;
    box.append(...tables().flatMap((table, place) => tableBlock(table, place ? `${id}-${place}` : id)));
  };
  const summary = element("summary", { id: `${id}-numbers` }, "Numbers");
  const details = element("details", { class: "numbers", open: view.open }, summary, box);
  if (view.open) fill();
  details.addEventListener("toggle", () => {
    view.open = details.open;
    if (details.open) fill();
  });
  return details;
}
