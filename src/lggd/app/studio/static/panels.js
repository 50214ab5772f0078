// The cards beside the map. All names are inserted as text.

import { classColour } from "./colours.js";
import { button, element, formatPercent, shorten, swatch } from "./dom.js";

const MAX_CONFUSION_CLASSES = 30;
const SIZE = { width: 340, height: 150, left: 34, right: 6, top: 8, bottom: 20 };

export function className(classes, name) {
  const k = classes.indexOf(name);
  return element("span", { class: "class" }, ...(k < 0 ? [] : [swatch(classColour(k))]), shorten(name, 60));
}

// A picture of grey values, drawn pixel by pixel.
export function picture(rows) {
  const canvas = element("canvas", { class: "picture", width: rows[0].length, height: rows.length, role: "img", "aria-label": "the node as a picture" });
  const context = canvas.getContext("2d"), image = context.createImageData(rows[0].length, rows.length);
  rows.flat().forEach((grey, k) => image.data.set([grey, grey, grey, 255], 4 * k));
  context.putImageData(image, 0, 0);
  return canvas;
}

export function nodeContent(node, classes) {
  const rows = node.probabilities.map(({ label, probability }) => [className(classes, label), formatPercent(probability)]);
  for (const [name, value] of Object.entries(node.attributes).slice(0, 8)) rows.push([shorten(name, 40), String(value)]);
  const table = element("table", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value))));
  const label = node.label === null ? "no label" : element("span", {}, "label ", className(classes, node.label));
  const head = element("p", {}, element("strong", {}, `node ${shorten(node.node)}`), " · ", label);
  return [head, element("div", { class: "about" }, ...(node.picture ? [picture(node.picture)] : []), table)];
}

export function queueItem({ node, reason, first }, classes, show) {
  return element("li", { "data-node": node },
    button({ class: "show" }, shorten(node, 40), show), ...(first === null ? [] : [className(classes, first)]), element("small", {}, reason));
}

function keepOrCorrect({ keep, correct }) {
  return element("span", { class: "pair" }, button({ class: "keep" }, "Keep", keep), button({ class: "correct" }, "Correct", correct));
}

export function suspiciousItem(suspect, classes, actions) {
  return element("li", { "data-node": suspect.node },
    button({ class: "show" }, shorten(suspect.node, 40), actions.show),
    element("span", {}, className(classes, suspect.label), " → ", className(classes, suspect.suggested), ` (${formatPercent(suspect.suggested_probability)})`), keepOrCorrect(actions));
}

// Why the selected node was chosen: its entry in the queue, or among the labels that look wrong.
export function whyContent(suggestion, suspect, classes, actions) {
  if (suspect) {
    const words = element("span", {}, "All other labels say ", className(classes, suspect.suggested), ` (${formatPercent(suspect.suggested_probability)}).`);
    return [element("p", { class: "why" }, words, keepOrCorrect(actions))];
  }
  return suggestion ? [element("p", { class: "why quiet" }, `Why: ${suggestion.reason}.`)] : [];
}

export function historyItem(change) {
  const [first] = change.entries, many = change.num_entries > 1 ? ` and ${change.num_entries - 1} more` : "";
  const words = first ? `${shorten(first.node, 30)}: ${first.before ?? "–"} → ${first.after ?? "–"}${many}` : "";
  const time = new Date(change.at).toLocaleTimeString();
  const kind = change.kind === "label" ? "" : `${change.kind} `;
  const who = change.author || (change.kind === "given" ? "with the graph" : "anonymous");
  return element("li", {}, element("span", {}, kind, words), element("small", {}, `${who}, ${time}`));
}

export function countsTable({ classes, labelled, predicted }) {
  const head = element("tr", {}, ...["class", "labels", "predicted"].map((text) => element("th", { scope: "col" }, text)));
  const rows = classes.map((name, k) => element("tr", {}, element("th", { scope: "row" }, className(classes, name)), element("td", {}, labelled[k]), element("td", {}, predicted[k])));
  return element("table", { class: "counts" }, head, ...rows);
}

export function confusionTable({ classes, confusion }) {
  const shown = classes.slice(0, MAX_CONFUSION_CLASSES);
  const head = element("tr", {}, element("td", {}), ...shown.map((name) => element("th", { scope: "col" }, shorten(name, 12))));
  const rows = shown.map((name, i) => element("tr", {}, element("th", { scope: "row" }, shorten(name, 20)),
    ...shown.map((_, j) => element("td", confusion[i][j] ? { class: i === j ? "hit" : "miss" } : {}, confusion[i][j] || "·"))));
  return element("table", {}, element("caption", {}, "Rows are true classes, columns predicted ones."), head, ...rows);
}

export function accuracyText({ accuracy, held_out: heldOut, compared, certainty }) {
  const mean = `Mean certainty ${formatPercent(certainty)}.`;
  if (accuracy === null) return "Label nodes of two classes to see predictions.";
  const where = heldOut ? `on ${compared.toLocaleString("en")} held-out nodes` : "estimated by leave-one-out";
  return `Accuracy ${(100 * accuracy).toFixed(1)} % ${where}. ${mean}`;
}

function svg(kind, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const SERIES = [["accuracy", "accuracy", "var(--series-2)"], ["certainty", "mean certainty", "var(--series-1)"]];

export function curvesLegend() {
  return element("p", { class: "keys quiet" }, ...SERIES.map(([, words, colour]) => element("span", { class: "item" }, swatch(colour), words)));
}

// Accuracy and mean certainty by the number of labels.
export function curves(points) {
  const known = points.filter((point) => point.accuracy !== null);
  const { width, height, left, right, top, bottom } = SIZE;
  const counts = known.map((point) => point.labels), most = Math.max(...counts, 1), fewest = Math.min(...counts, most);
  const least = fewest < most ? fewest : 0;
  const x = (labels) => left + (labels - least) / (most - least || 1) * (width - left - right);
  const y = (share) => top + (1 - share) * (height - top - bottom);
  const line = (key, colour) => svg("polyline", { class: "line", stroke: colour, points: known.map((point) => `${x(point.labels)},${y(point[key])}`).join(" ") });
  const ticks = [0, 0.5, 1].map((share) => svg("g", {}, svg("line", { class: "axis", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
    svg("text", { x: left - 4, y: y(share) + 3, "text-anchor": "end" }, `${100 * share} %`)));
  const last = known.at(-1);
  const end = (key, colour) => svg("circle", { cx: x(last.labels), cy: y(last[key]), r: 3, fill: colour });
  const words = last ? `Accuracy ${formatPercent(last.accuracy)} and certainty ${formatPercent(last.certainty)} with ${last.labels} labels` : "No accuracy yet";
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words }, ...ticks,
    ...SERIES.toReversed().map(([key, , colour]) => line(key, colour)), ...(last ? SERIES.toReversed().map(([key, , colour]) => end(key, colour)) : []),
    svg("text", { x: left, y: height - 5 }, String(known.length ? least : "")), svg("text", { x: width - right, y: height - 5, "text-anchor": "end" }, `${most} labels`));
}
