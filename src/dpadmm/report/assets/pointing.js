// Pointer and keys over a drawn chart: the tooltip follows, a drag zooms.

const KEYS = "Arrow keys move from value to value, Home and End go to the first and last, Escape hides them.";
const ZOOM_KEYS = " Plus and minus zoom, 0 resets.";
let dragging = false; // a page that is redrawn under the pointer would lose it

/** `current` gives what is drawn now; `zoom` draws another range. */
function listenTo(box, tip, view, current, zoom) {
  let start = null;

  function show(stop, height) {
    const drawn = current();
    if (stop < drawn.first || stop > drawn.last) return hide();
    [view.stop, view.height] = [stop, height];
    const shown = drawn.show(stop, height);
    showTip(tip, shown, drawn.svg);
    return shown;
  }

  function hide() {
    view.stop = null;
    tip.hidden = true;
    current().marks.replaceChildren();
    return null;
  }

  function place(event) {
    const [svg, edges] = [current().svg, current().svg.getBoundingClientRect()];
    const scale = svg.viewBox.baseVal.width / edges.width;
    return [(event.clientX - edges.left) * scale, (event.clientY - edges.top) * scale];
  }

  function press(event) {
    if (event.button !== 0 || !current().range) return;
    start = place(event)[0];
  }

  function move(event) {
    const [x, y] = place(event);
    dragging = dragging || (start !== null && Math.abs(x - start) > 5);
    if (start === null || !dragging) return void show(current().find(x, y), y);
    if (!box.hasPointerCapture(event.pointerId)) box.setPointerCapture(event.pointerId);
    tip.hidden = true;
    current().select(start, x);
  }

  function release(event) {
    if (dragging && start !== null) {
      const range = current().range(start, place(event)[0]);
      hide();
      if (range !== null) zoom(range);
    }
    cancel();
  }

  function cancel() {
    [start, dragging] = [null, false];
  }

  function leave() {
    if (start === null) hide();
  }

  function strike(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== box) return;
    const stop = stopAfter(event, current(), view.stop);
    if (stop !== null) {
      const shown = show(stop, null);
      if (shown !== null) announce(tipInWords(shown));
    } else if (event.key === "Escape") hide();
    else if (!current().around || !zoomByKey(event.key)) return;
    event.preventDefault();
  }

  function zoomByKey(key) {
    const factor = { "+": 0.5, "=": 0.5, "-": 2 }[key];
    if (factor === undefined && key !== "0") return false;
    const stop = view.stop ?? Math.round((current().first + current().last) / 2);
    zoom(key === "0" ? null : current().around(stop, factor));
    show(stop, null);
    return true;
  }

  box.addEventListener("pointerdown", press);
  box.addEventListener("pointermove", move);
  box.addEventListener("pointerup", release);
  box.addEventListener("pointercancel", cancel);
  box.addEventListener("pointerleave", leave);
  box.addEventListener("dblclick", () => current().range && zoom(null));
  box.addEventListener("keydown", strike);
  box.addEventListener("blur", hide);
  return { show, hide };
}

/** Where a key leads to, or null if it does not move. */
function stopAfter(event, { first, last }, stop) {
  const step = event.shiftKey ? 10 : 1;
  const steps = { ArrowRight: step, ArrowDown: step, ArrowLeft: -step, ArrowUp: -step };
  if (event.key in steps) return stop === null ? first : clamp(stop + steps[event.key], first, last);
  return { Home: first, End: last }[event.key] ?? null;
}
