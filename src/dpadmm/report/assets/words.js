// What is said rather than drawn: the guarantee, warnings, what was run.

/** "round 12 of 100", "finished", "crashed: why (round 12 of 100)". */
function progressOf(run) {
  const rounds = `round ${run.round} of ${run.rounds}`;
  if (run.state === "running") return rounds;
  if (run.state === "finished") return "finished";
  return `${run.state}${run.error ? `: ${run.error}` : ""} (${rounds})`;
}

function statusOf(runs) {
  if (runs.length === 1) return progressOf(runs[0]);
  return runs.map((run) => `${run.name}: ${progressOf(run)}`).join("; ");
}

function runMark(place, runs) {
  return runs.length > 1 ? swatch({ colour: `colour-${place % COLOURS}`, dash: DASHES[place % DASHES.length] }) : null;
}

/** A run that gives the page its title is not named twice. */
function runElement(run, place, runs, title) {
  const name = run.name === title ? null : element("span", {}, run.name);
  const chip = element("span", { class: `state ${run.state}` }, progressOf(run));
  return element("li", {}, runMark(place, runs), name, chip);
}

/** A simulation adds up like a private run, and protects nobody: it gets neither the green tick nor the red cross. */
function verdictOf({ accounted, simulated }) {
  if (!accounted) return ["open", "✗ Not private"];
  return simulated ? ["seeded", "◐ Simulated: seeded noise protects nobody"] : ["private", "✓ Private"];
}

function guaranteeElement(run, place, runs) {
  const { plain, exact, notes } = run.guarantee;
  const [tone, verdict] = verdictOf(run.guarantee);
  const heading = runs.length > 1 ? element("h3", {}, runMark(place, runs), run.name) : null;
  return element(
    "article",
    { class: `guarantee ${tone}` },
    heading,
    element("p", { class: "verdict" }, verdict),
    element("p", { class: "plain" }, plain ?? ""),
    notes ? element("ul", { class: "notes" }, ...notes.map((note) => element("li", {}, note))) : null,
    exact ? element("p", { class: "exact" }, element("code", {}, exact)) : null,
  );
}

function warningsElement(runs) {
  const several = runs.length > 1;
  const said = runs.flatMap((run) => run.warnings.map((warning) => (several ? `${run.name}: ${warning}` : warning)));
  return said.length ? element("ul", { class: "warnings" }, ...said.map((text) => element("li", {}, text))) : null;
}

/** Labels down, runs across; a row whose values differ is marked. */
function factsElement(runs) {
  const values = runs.map((run) => new Map(run.facts));
  const labels = [...new Set(values.flatMap((each) => [...each.keys()]))];
  if (labels.length === 0) return null;
  const names = runs.map((run, place) => element("th", { scope: "col" }, runMark(place, runs), run.name));
  const head = element("tr", {}, element("td", {}), ...names);
  const rows = labels.map((label) => {
    const row = values.map((each) => each.get(label) ?? "");
    const differs = row.some((value) => value !== row[0]);
    const name = element("th", { scope: "row" }, label, differs ? differsElement() : null);
    return element("tr", {}, name, ...row.map((value) => element("td", {}, value)));
  });
  const caption = element("caption", { class: "unseen" }, "What was run");
  const table = element("table", {}, caption, element("thead", {}, head), element("tbody", {}, ...rows));
  const named = { tabindex: 0, role: "region", "aria-label": "What was run" };
  return element("div", { class: "facts scroll", id: "facts", ...named }, table);
}

function differsElement() {
  const spoken = element("span", { class: "unseen" }, "differs");
  return element("span", { class: "differs", title: "differs between the runs" }, spoken);
}

function specElement(run, place, runs, opened) {
  if (!run.spec) return null;
  const title = runs.length > 1 ? `Spec of ${run.name}` : "Spec, as it was run";
  const text = element("pre", { id: `spec-${place}-text`, tabindex: 0 }, element("code", {}, run.spec));
  const summary = element("summary", { id: `spec-${place}` }, title);
  const details = element("details", { class: "spec", open: opened.has(place) }, summary, text);
  details.addEventListener("toggle", () => opened[details.open ? "add" : "delete"](place));
  return details;
}
