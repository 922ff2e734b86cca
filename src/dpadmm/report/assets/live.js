// A page that a server feeds while runs go on.

const LOST = "connection lost; the server may have stopped";

function follow(first, draw) {
  const status = byId("status");
  const events = new EventSource("events");
  let [latest, waiting] = [first, false];

  function say(text) {
    if (status.textContent !== text) status.textContent = text; // said once, not again and again
  }

  /** At most once per frame, and not under a moving pointer. */
  function update() {
    if (dragging) return void requestAnimationFrame(update);
    waiting = false;
    draw(latest);
    say(statusOf(latest.runs));
  }

  events.addEventListener("document", (event) => {
    latest = JSON.parse(event.data);
    if (!waiting) requestAnimationFrame(update);
    waiting = true;
  });
  events.addEventListener("end", () => events.close());
  events.addEventListener("open", () => say(statusOf(latest.runs)));
  events.addEventListener("error", () => say(LOST));
  say(statusOf(first.runs));
}
