// Words about a map: its legend, the tooltip of a node, and descriptions for screen readers.

import { classColour } from "./colours.js";
import { button, element, formatCount, formatNumber, formatPercent, shorten, swatch } from "./dom.js";
import { codesOf, distanceOf, MAX_CODE, MAX_PROBABILITY, nameOf, UNREACHABLE } from "./map_data.js";
import { countClasses, MODES } from "./map_modes.js";

const MAX_DISTANCES = 6;
// A second class that is far less probable would distract.
const MAX_MARGIN = 204;

export function describeMap(data, { mode, time, k }, labelled) {
  const what = mode === "distance"
    ? `distance to class ${data.classes[k]} at time ${formatNumber(data.times[time])}, ${formatScale(data, time, k).join(", ")}`
    : MODES[mode].title;
  const rings = labelled ? `; rings mark ${formatCount(labelled, "labelled node")}` : "";
  return `Map of ${formatCount(data.count, "node")} coloured by ${what}${rings}.`;
}

export function nodeInWords(data, node) {
  const parts = [`node ${nameOf(data, node)}`];
  if (data.predicted[node] >= 0) parts.push(`predicted ${data.classes[data.predicted[node]]}, ${probabilityText(data, node)}`);
  if (data.label[node] >= 0) parts.push(`label ${data.classes[data.label[node]]}`);
  if (data.truth[node] >= 0) parts.push(`true class ${data.classes[data.truth[node]]}`);
  return parts.join("; ");
}

function probabilityText(data, node) {
  return formatPercent(data.probability[node] / MAX_PROBABILITY);
}

// -- legend

const item = (...content) => element("span", { class: "item" }, ...content);

// Entries for what is on the map, and for nothing else. `pick(k)` is called when a class is chosen.
export function legendContent(data, theme, choice, hasLabels, pick) {
  const ring = hasLabels ? [item(swatch(theme.ink, "ring"), "labelled")] : [];
  const entries = { distance: distanceLegend, certainty: certaintyLegend, correct: correctnessLegend }[choice.mode];
  return [...(entries ?? classLegend)(data, theme, choice, pick), ...ring];
}

function gradient(theme) {
  const bar = element("i", { class: "gradient" });
  bar.style.background = `linear-gradient(to right, ${theme.ramp.filter((_, k) => k % 7 === 0).join(",")})`;
  return bar;
}

function certaintyLegend(data, theme) {
  return [item("uncertain", gradient(theme), "certain")];
}

function distanceLegend(data, theme, { time, k }) {
  const codes = codesOf(data, time, k), [near, far] = formatScale(data, time, k);
  const scale = codes.every((code) => code === UNREACHABLE) ? [] : [item(near, gradient(theme), far)];
  return codes.includes(UNREACHABLE) ? [...scale, item(swatch(theme.faint), "unreachable")] : scale;
}

function correctnessLegend(data, theme) {
  const isWrong = (tested, node) => tested && data.truth[node] !== data.predicted[node];
  const isRight = (tested, node) => tested && data.truth[node] === data.predicted[node];
  return [
    [theme.correct, "correct", data.tested.some(isRight)],
    [theme.wrong, "incorrect", data.tested.some(isWrong)],
    [theme.faint, "not a test node", data.tested.includes(0)],
  ].filter(([, , isThere]) => isThere).map(([colour, words]) => item(swatch(colour), words));
}

function classLegend(data, theme, { mode, only }, pick) {
  const counts = countClasses(data, mode), unknown = data.count - counts.reduce((a, b) => a + b, 0);
  const count = (number) => element("small", { class: "quiet" }, number.toLocaleString("en"));
  const chips = data.classes.map((name, k) => {
    const chip = button({ class: "item chip", "data-class": k, "aria-pressed": String(only === k) }, swatch(theme.classes[k]),
      () => pick(k));
    chip.append(name, count(counts[k]));
    return chip;
  }).filter((_, k) => counts[k]);
  const words = mode === "label" ? "no label" : "unknown";
  return unknown ? [...chips, item(swatch(theme.faint), words, count(unknown))] : chips;
}

function formatScale(data, time, k) {
  const [low, high, unit, exceeds] = data.scales[time][k];
  return [`near ${formatNumber(low)}`, `far ${formatNumber(high)}${exceeds ? " or more" : ""}${unit ? " (log scale)" : ""}`];
}

// -- tooltip

export function tipContent(data, node, { time }) {
  const truth = data.truth[node], predicted = data.predicted[node], label = data.label[node], second = data.second[node];
  const aside = (words) => element("span", { class: "aside" }, words);
  const rows = [];
  if (predicted >= 0) rows.push(["predicted", ...classNamed(data, predicted), aside(probabilityText(data, node))]);
  if (second >= 0 && second !== predicted && data.margin[node] < MAX_MARGIN) rows.push(["second", ...classNamed(data, second)]);
  if (truth >= 0) {
    const mark = element("b", { class: truth === predicted ? "ok" : "wrong" }, truth === predicted ? " ✓" : " ✗");
    rows.push(["true class", ...classNamed(data, truth), mark]);
  }
  if (label >= 0) rows.push(["label", ...classNamed(data, label)]);
  const list = element("dl", {}, ...rows.flatMap(([term, ...content]) =>
    [element("dt", {}, term), element("dd", {}, ...content)]));
  return [element("strong", {}, `node ${shorten(nameOf(data, node))}`), list, ...(time >= 0 ? distanceRows(data, node, time) : [])];
}

function classNamed(data, k) {
  return [swatch(classColour(k)), data.classes[k]];
}

// The nearest classes, with bars relative to the farthest of them.
function distanceRows(data, node, time) {
  const codes = data.classes.map((_, k) => codesOf(data, time, k)[node]);
  const far = codes.map((code, k) => distanceOf(data, time, k, code));
  const nearest = far.map((_, k) => k).sort((a, b) => (far[a] < far[b] ? -1 : far[a] > far[b] ? 1 : a - b))
    .slice(0, MAX_DISTANCES);
  const farthest = Math.max(...nearest.map((k) => (Number.isFinite(far[k]) ? far[k] : 0)), 1e-12);
  const rows = nearest.map((k) => {
    const bar = element("i", { class: "length" });
    bar.style.width = `${100 * Math.min(Math.max(far[k], 0) / farthest, 1)}%`;
    return element("tr", {}, element("th", {}, ...classNamed(data, k)), element("td", {}, bar),
      element("td", {}, formatDistance(data, time, k, codes[k])));
  });
  const head = `distances at time ${formatNumber(data.times[time])}${nearest.length < far.length ? ", nearest first" : ""}`;
  return [element("small", {}, head), element("table", {}, ...rows)];
}

// Where the scale ends before the farthest nodes, only a lower bound is known.
function formatDistance(data, time, k, code) {
  const exceeds = code === MAX_CODE && data.scales[time][k][3];
  return (exceeds ? "over " : "") + formatNumber(distanceOf(data, time, k, code));
}
