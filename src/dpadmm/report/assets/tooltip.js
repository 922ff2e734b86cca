// The box beside the pointer.

function tipElement() {
  return element("div", { class: "tip", "aria-hidden": "true", hidden: true });
}

function showTip(box, tip, svg) {
  const scale = svg.clientWidth / svg.viewBox.baseVal.width;
  const rows = tip.rows.map((row) => {
    const value = element("td", { class: "value" }, String(row.value));
    return element("tr", {}, element("td", {}, row.mark), element("td", {}, row.name), value);
  });
  box.replaceChildren(
    element("strong", {}, tip.title),
    ...(rows.length ? [element("table", { role: "presentation" }, element("tbody", {}, ...rows))] : []),
    ...(tip.note ? [element("p", {}, tip.note)] : []),
  );
  box.hidden = false;
  const [x, y] = [tip.x * scale, tip.y * scale];
  const [after, before, room] = [x + 16, x - 16 - box.offsetWidth, svg.clientWidth - box.offsetWidth];
  box.style.left = `${after <= room ? after : Math.max(before, Math.min(0, room))}px`;
  box.style.top = `${clamp(y - box.offsetHeight / 2, -20, Math.max(0, svg.clientHeight - box.offsetHeight))}px`;
}

function tipInWords(tip) {
  const rows = tip.rows.map((row) => `${row.name} ${row.value}`.trim());
  return [tip.title, rows.join(", "), tip.note].filter((part) => part !== "").join(": ");
}

function announce(text) {
  document.getElementById("announcement").textContent = text;
}
