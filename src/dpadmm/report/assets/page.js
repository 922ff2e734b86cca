// The page: sections in order, drawn again in place when a new report comes.

const CHARTS = {
  convergence: "Convergence",
  budget: "Privacy budget",
  noise: "Noise",
  model: "Model",
  network: "Network",
};
const views = new Map(); // by chart
const opened = new Set(); // specs, by place
const made = new Map(); // what is on the page, by name, with what it was made from

function byId(id) {
  return document.getElementById(id);
}

/** What was made under this name, if it was made from the same. */
function keep(name, source, build) {
  const text = JSON.stringify(source);
  if (made.get(name)?.text !== text) made.set(name, { text, value: build() });
  return made.get(name).value;
}

function render(report) {
  const focused = document.activeElement?.id;
  document.title = report.title;
  byId("title").textContent = report.title;
  const { runs } = report;
  const listed = runs.length > 1 || !("live" in document.documentElement.dataset); // a single one has the status line
  byId("runs").replaceChildren(...(listed ? runs : []).map((run, place) => runElement(run, place, runs, report.title)));
  const when = report.made.replace("T", " ").replace(/(\+00:00|Z)$/, "");
  const origin = `Made ${when} UTC by dpadmm ${report.version}.`;
  byId("foot").textContent = `${origin} This file holds all it shows and loads nothing.`;
  const sections = sectionsOf(report);
  arrange(byId("main"), sections.map((section) => section.node));
  const links = sections.map(({ id, heading }) => element("a", { href: `#${id}`, id: `to-${id}` }, heading));
  byId("sections").replaceChildren(...links);
  drawCards(report);
  if (focused && document.activeElement?.id !== focused) byId(focused)?.focus({ preventScroll: true });
}

function sectionsOf(report) {
  const { runs } = report;
  const guarantees = runs.map((run, place) =>
    keep(`guarantee ${place}`, [run.name, run.guarantee, runs.length], () => guaranteeElement(run, place, runs)),
  );
  const warnings = keep("warnings", runs.map((run) => [run.name, run.warnings]), () => warningsElement(runs));
  const facts = keep("facts", runs.map((run) => [run.name, run.facts]), () => factsElement(runs));
  const specs = runs.map((run, place) =>
    keep(`spec ${place}`, [run.name, run.spec, runs.length], () => specElement(run, place, runs, opened)),
  );
  const nodes = (id) => cardsOf(report, id).map((card) => card.node);
  const charts = Object.entries(CHARTS).map(([id, heading]) => sectionOf(id, heading, nodes(id)));
  const sections = [
    sectionOf("guarantee", runs.length > 1 ? "Guarantees" : "Guarantee", guarantees),
    sectionOf("warnings", "Warnings", [warnings]),
    ...charts,
    sectionOf("run", "What was run", [facts, ...specs]),
  ];
  return sections.filter((section) => section !== null);
}

function sectionOf(id, heading, nodes) {
  const content = nodes.filter((node) => node !== null);
  if (content.length === 0) return null;
  const section = keep(`section ${id}`, heading, () => {
    const box = element("div", { class: "content" });
    const title = element("h2", { id: `${id}-heading` }, heading);
    return { id, heading, box, node: element("section", { id, "aria-labelledby": `${id}-heading` }, title, box) };
  });
  arrange(section.box, content);
  return section;
}

function cardsOf(report, section) {
  const names = report.runs.map((run) => run.name);
  return report.charts.filter((chart) => chart.section === section).map((chart) =>
    keep(`chart ${chart.id}`, [chart, names], () => {
      // A copy: the old card still hears that it has lost the focus.
      views.set(chart.id, { ...(views.get(chart.id) ?? newView()) });
      return cardOf(chart, report.runs, views.get(chart.id));
    }),
  );
}

/** All widths are read before anything is drawn, or every drawing would have the page laid out anew. */
function drawCards(report) {
  const cards = report.charts.map((chart) => made.get(`chart ${chart.id}`).value);
  const widths = cards.map((card) => card.box.clientWidth);
  cards.forEach((card, place) => {
    if (widths[place] > 0 && (!card.isDrawn() || card.width() !== widths[place])) card.draw(widths[place]);
  });
}

/** Light or dark: the system's wish, until the reader has another. */
function listenToTheme() {
  const [root, button, system] = [document.documentElement, byId("theme"), matchMedia("(prefers-color-scheme: dark)")];
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => (button.textContent = isDark() ? "Light colours" : "Dark colours");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
}
