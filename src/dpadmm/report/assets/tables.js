// The numbers behind a chart, as a table and as a CSV file.

const CELLS = 20_000; // more take seconds to lay out, so they come only when asked for

/** Empty columns are left out: nobody needs to read them. */
function withoutEmpty(table) {
  const isEmpty = (column) => table.rows.every((row) => row[column] === null || row[column] === "");
  const used = table.head.map((_, column) => column === 0 || !isEmpty(column));
  const keep = (row) => row.filter((_, column) => used[column]);
  return { caption: table.caption, head: keep(table.head), rows: table.rows.map(keep) };
}

function tableElement(table, count) {
  const head = element("tr", {}, ...table.head.map((name) => element("th", { scope: "col" }, name)));
  const body = element("tbody", {}, ...table.rows.slice(0, count).map(tableRow));
  return element("table", {}, element("caption", {}, table.caption), element("thead", {}, head), body);
}

function tableRow([name, ...values]) {
  const row = element("tr", {}, element("th", { scope: "row" }, String(name)));
  for (const value of values) {
    const cell = row.insertCell();
    cell.textContent = value ?? "";
    if (typeof value === "string") cell.className = "text";
  }
  return row;
}

function csvOf(table) {
  return [table.head, ...table.rows].map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";
}

/** A text that begins like a formula gets an apostrophe: spreadsheets would run it. */
function csvField(value) {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser reads it a little later
}

/** A table that can be scrolled by keyboard too, and its button. */
function tableBlock(raw, id) {
  const table = withoutEmpty(raw);
  const named = { tabindex: 0, role: "region", "aria-label": table.caption };
  const box = element("div", { class: "scroll", id: `${id}-table`, ...named });
  const count = Math.max(50, Math.floor(CELLS / table.head.length));
  const drawn = tableElement(table, count);
  box.append(drawn);
  const save = () => download(`${id}.csv`, csvOf(table));
  const buttons = [button(`${id}-csv`, save, "Download as CSV")];
  if (count < table.rows.length) buttons.push(restButton(drawn, table, count, id, box));
  return [element("div", {}, ...buttons), box];
}

function restButton(drawn, table, count, id, box) {
  const add = () => {
    drawn.tBodies[0].append(...table.rows.slice(count).map(tableRow));
    made.remove();
    box.focus({ preventScroll: true });
  };
  const made = button(`${id}-rest`, add, `Show all ${table.rows.length} rows, not only ${count}`);
  return made;
}
