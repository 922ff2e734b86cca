// Who is joined with whom: nodes coloured by group, and edges.

const REACH = { node: 18, edge: 8 }; // pixels within which the pointer means it
const LABELLED = 40; // more names than these would cover each other

const byNumber = new Intl.Collator("en", { numeric: true }).compare;

function network(chart) {
  const nodes = chart.nodes ?? [];
  const edges = chart.edges ?? [];
  const groups = [...new Set(nodes.map((node) => node.group ?? ""))].sort(byNumber); // zone 2 before zone 10
  const lookAt = (place) => ({ colour: `colour-${place % COLOURS}`, hollow: place >= COLOURS });
  const looks = new Map(groups.map((group, place) => [group, lookAt(place)]));
  const look = (node) => looks.get(node.group ?? "");
  const legend = groups.map((group) => ({ text: group || "no group", keys: [group], mark: dot(looks.get(group)) }));
  return {
    legend: groups.length > 1 ? legend : [],
    words: networkInWords(nodes, edges, groups),
    tables: () => [nodesTable(chart, nodes), edgesTable(chart, nodes, edges)].filter((table) => table.rows.length),
    draw: (width, view) => drawNetwork(nodes, edges, look, width, view),
  };
}

function drawNetwork(nodes, edges, look, width, view) {
  const height = Math.round(clamp(width * 0.62, 260, 460));
  const places = placesOf(nodes, width, height);
  const seen = nodes.map((node) => !view.hidden.has(node.group ?? ""));
  const drawnEdges = edges.map((edge) => (seen[edge.source] && seen[edge.target] ? edgeShape(edge, places) : null));
  const radius = clamp(40 / Math.sqrt(nodes.length), 3, 8);
  const drawnNodes = nodes.map((node, index) => (seen[index] ? nodeShape(look(node), places[index], radius) : null));
  const marks = overlay(width, height);
  const present = (drawn) => drawn.filter((each) => each !== null);
  const names = nodes.length <= LABELLED ? nodes.map((node, index) => nameShape(node, places[index])) : [];
  const svg = shape(
    "svg",
    { viewBox: `0 0 ${width} ${height}` },
    shape("g", { class: "edges", "data-points": present(drawnEdges).length }, present(drawnEdges)),
    shape("g", { class: "nodes", "data-points": present(drawnNodes).length }, present(drawnNodes)),
    shape("g", { class: "axes", "aria-hidden": "true" }, names.filter((_, index) => seen[index])),
  );
  const drawn = [...drawnNodes, ...drawnEdges];
  const stops = drawn.flatMap((each, index) => (each === null ? [] : [index]));
  return {
    svg,
    marks,
    first: 0,
    last: stops.length - 1,
    find: (x, y) => stopAt(stops, nodes.length, places, edges, x, y),
    show: (stop) => chosen(nodes, edges, places, look, marks, stops[stop]),
  };
}

/** Both axes with one scale, as large as fits; y points up. */
function placesOf(nodes, width, height) {
  const [left, right] = extent(nodes.map((node) => node.x)) ?? [0, 1];
  const [low, high] = extent(nodes.map((node) => node.y)) ?? [0, 1];
  const [edgeX, edgeY] = [48, 28];
  const scale = Math.min((width - 2 * edgeX) / (right - left || 1e-9), (height - 2 * edgeY) / (high - low || 1e-9));
  const limited = Math.min(scale, 1e6);
  const [middleX, middleY] = [(left + right) / 2, (low + high) / 2];
  return nodes.map((node) => [width / 2 + (node.x - middleX) * limited, height / 2 - (node.y - middleY) * limited]);
}

function edgeShape(edge, places) {
  const [[x1, y1], [x2, y2]] = [places[edge.source], places[edge.target]];
  return shape("line", { class: edge.strong ? "edge strong" : "edge", x1, y1, x2, y2 });
}

function nodeShape(look, [cx, cy], r) {
  const kind = look.hollow ? "node hollow" : "node";
  return shape("circle", { class: `${kind} ${look.colour}`, cx, cy, r });
}

function nameShape(node, [x, y]) {
  return shape("text", { class: "name", x, y: y - 12, "text-anchor": "middle" }, node.name);
}

/** The nearest node within reach, or else the nearest edge, as its place among the stops; -1: neither. */
function stopAt(stops, count, places, edges, x, y) {
  const [near, far] = [{ distance: REACH.node, stop: -1 }, { distance: REACH.edge, stop: -1 }];
  stops.forEach((index, stop) => {
    const isNode = index < count;
    const kept = isNode ? near : far;
    const distance = isNode ? distanceTo(places[index], [x, y]) : distanceToEdge(edges[index - count], places, [x, y]);
    if (distance < kept.distance) Object.assign(kept, { distance, stop });
  });
  return near.stop >= 0 ? near.stop : far.stop;
}

function distanceTo([x, y], [otherX, otherY]) {
  return Math.hypot(x - otherX, y - otherY);
}

function distanceToEdge(edge, places, point) {
  const [from, to] = [places[edge.source], places[edge.target]];
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const along = ((point[0] - from[0]) * dx + (point[1] - from[1]) * dy) / (dx * dx + dy * dy || 1);
  const part = clamp(along, 0, 1);
  return distanceTo([from[0] + part * dx, from[1] + part * dy], point);
}

function chosen(nodes, edges, places, look, marks, index) {
  if (index < nodes.length) {
    const [node, [x, y]] = [nodes[index], places[index]];
    marks.replaceChildren(shape("circle", { class: "chosen", cx: x, cy: y, r: 15 }));
    const rows = [{ mark: dot(look(node)), name: node.group ?? "", value: node.value ?? "" }];
    return { x, y, title: node.name, rows: node.group || node.value !== undefined ? rows : [], note: node.about ?? "" };
  }
  const edge = edges[index - nodes.length];
  const [[x1, y1], [x2, y2]] = [places[edge.source], places[edge.target]];
  marks.replaceChildren(shape("line", { class: "chosen", x1, y1, x2, y2 }));
  const rows = edge.value === undefined ? [] : [{ mark: null, name: "value", value: edge.value }];
  return { x: (x1 + x2) / 2, y: (y1 + y2) / 2, title: ends(nodes, edge).join(" – "), rows, note: edge.about ?? "" };
}

function ends(nodes, edge) {
  return [nodes[edge.source].name, nodes[edge.target].name];
}

function networkInWords(nodes, edges, groups) {
  const size = (group) => nodes.filter((node) => (node.group ?? "") === group).length;
  const counts = groups.map((group) => `${group || "no group"}: ${size(group)}`);
  const strong = edges.filter((edge) => edge.strong).length;
  const between = strong ? `, ${strong} of them between groups` : "";
  const grouped = groups.length > 1 ? ` Nodes by group: ${counts.join(", ")}.` : "";
  return `${nodes.length} nodes and ${edges.length} edges${between}.${grouped}`;
}

function nodesTable(chart, nodes) {
  const rows = nodes.map((node) => [node.name, node.group ?? "", node.value ?? null, node.about ?? ""]);
  return { caption: `${chart.title}: nodes`, head: ["node", "group", "value", "about"], rows };
}

function edgesTable(chart, nodes, edges) {
  const more = (edge) => [edge.value ?? null, edge.strong ? "yes" : "no", edge.about ?? ""];
  const rows = edges.map((edge) => [...ends(nodes, edge), ...more(edge)]);
  return { caption: `${chart.title}: edges`, head: ["from", "to", "value", "between groups", "about"], rows };
}
