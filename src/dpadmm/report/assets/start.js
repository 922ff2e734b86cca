// Draws the report that is in the page.

const root = document.documentElement;
let report = JSON.parse(byId("report").textContent);

function draw(next) {
  report = next;
  render(report);
}

listenToTheme();
draw(report);
new ResizeObserver(() => drawCards(report)).observe(byId("main"));
if ("live" in root.dataset) follow(report, draw);

// After the browser has painted: for those who measure. Seconds are since the page was asked for.
requestAnimationFrame(() => setTimeout(() => (window.dpadmm = { drawn: true, seconds: performance.now() / 1000 })));
