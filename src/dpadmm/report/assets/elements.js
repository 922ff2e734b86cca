// Making elements. Text goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function button(id, click, ...children) {
  return element("button", { type: "button", id, click }, ...children);
}

/** An attribute that is a function listens to the event of its name; null and false are left out. */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Makes these the children, without touching the ones that stay: they keep their focus and scroll positions. */
function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, place) => {
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] ?? null);
  });
}

/** What moves with the pointer, over the drawing: a layer of its own, so that a hundred lines are not painted again. */
function overlay(width, height) {
  return shape("svg", { class: "marks", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
}

/** A short piece of a line as it is drawn in the chart. */
function swatch(look) {
  const stroke = shape("line", { x1: 1, x2: 23, y1: 5, y2: 5, class: "curve", "stroke-dasharray": look.dash });
  return shape("svg", { class: `swatch ${look.colour}`, viewBox: "0 0 24 10", "aria-hidden": "true" }, stroke);
}

function dot(look) {
  const circle = shape("circle", { cx: 5, cy: 5, r: 4, class: look.hollow ? "node hollow" : "node" });
  return shape("svg", { class: `swatch dot ${look.colour}`, viewBox: "0 0 10 10", "aria-hidden": "true" }, circle);
}
