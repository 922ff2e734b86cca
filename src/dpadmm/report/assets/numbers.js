// Searching, rounding, and axes.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const COUNTED = new Intl.NumberFormat("en", { maximumFractionDigits: 12 });

/** The first place in a rising array whose value is not below this one. */
function placeOf(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place of the value nearest to this one. */
function nearest(sorted, value) {
  const place = Math.min(placeOf(sorted, value), sorted.length - 1);
  return place > 0 && value - sorted[place - 1] < sorted[place] - value ? place - 1 : place;
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

function power(exponent) {
  return "10" + [...String(exponent)].map((sign) => SUPERSCRIPTS[sign] ?? "⁻").join("");
}

/** For an axis: short, with powers of ten where zeros would be many. */
function tickText(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) return COUNTED.format(value);
  const [digits, exponent] = value.toExponential().split("e");
  if (digits === "1") return power(Number(exponent));
  return `${Number(Number(digits).toPrecision(4))}×${power(Number(exponent))}`;
}

/** The step of 1, 2 or 5 times a power of ten that comes nearest to fitting `count` times. */
function niceStep(span, count) {
  const rough = span / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const bounds = [Math.sqrt(2), Math.sqrt(10), Math.sqrt(50), Infinity];
  return unit * [1, 2, 5, 10][bounds.findIndex((bound) => rough / unit < bound)];
}

function multiples(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** `whole`: steps between whole numbers would say nothing. */
function linearTicks([low, high], count, whole = false) {
  const step = niceStep(high - low, count);
  return multiples(low, high, whole ? Math.max(1, step) : step);
}

function logTicks([low, high], count) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const stride = Math.max(1, Math.ceil((last - first + 1) / count));
  const decades = multiples(first, last, stride).map((exponent) => Number(`1e${exponent}`));
  if (decades.length >= 3) return decades;
  const between = [1, 2, 5].flatMap((digit) => multiples(first - 1, last, 1).map((each) => Number(`${digit}e${each}`)));
  const fitting = between.filter((value) => value >= low && value <= high).sort((one, other) => one - other);
  return fitting.length >= 2 ? fitting : linearTicks([low, high], count);
}

/** From values to pixels and back. */
function scaleOf(domain, range, log) {
  const [bend, back] = log ? [Math.log10, (value) => 10 ** value] : [Number, Number];
  const [low, high] = domain.map(bend);
  const slope = (range[1] - range[0]) / (high - low);
  const to = (value) => range[0] + (bend(value) - low) * slope;
  const from = (pixel) => back(low + (pixel - range[0]) / slope);
  const ticks = (count, whole) => (log ? logTicks(domain, count) : linearTicks(domain, count, whole));
  return { to, from, ticks, log };
}

/** Least and greatest of the values that there are, or null. */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null || value === undefined) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Some room where there is only one value. */
function widened([low, high], log) {
  if (low < high) return [low, high];
  if (log) return [low / 2, high * 2];
  const room = Math.abs(low) / 2 || 0.5;
  return [low - room, high + room];
}

/** A range that ends at ticks or, on a log axis, a little beyond the values. */
function roomy(found, log, count) {
  const [low, high] = widened(found, log);
  if (log) {
    const room = (high / low) ** 0.04;
    return [low / room, high * room];
  }
  const step = niceStep(high - low, count);
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
}
