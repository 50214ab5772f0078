// The meaning of colours: for each way to colour a map, a number for every node and the colour of each number.

import { RAMP_STEPS } from "./colours.js";
import { codesOf, MAX_CODE } from "./map_data.js";

// `choice` is { mode, k, time, only }: class and time of distances, and the one class that is not faded (-2: all).
export const MODES = {
  distance: { title: "distance", has: (data) => data.times.length > 0, paint: byDistance },
  predicted: { title: "predicted class", has: () => true, paint: (data, theme) => byClass(data.predicted, theme) },
  certainty: { title: "certainty", has: () => true, paint: (data, theme) => byCode(data.margin, theme, 255) },
  label: { title: "label", has: (data) => hasKnown(data.label), paint: (data, theme) => byClass(data.label, theme) },
  truth: { title: "true class", has: (data) => hasKnown(data.truth), paint: (data, theme) => byClass(data.truth, theme) },
  correct: { title: "correctness", has: (data) => data.tested.includes(1), paint: byCorrectness },
};

export function modesOf(data) {
  return Object.keys(MODES).filter((name) => MODES[name].has(data));
}

function hasKnown(classes) {
  return classes.some((k) => k >= 0);
}

// A colouring: a number per node (-1 is faint, and drawn first), the colours, and the order of drawing, first to last.
function byClass(number, { classes }) {
  return { number, colours: classes, order: classes.map((_, k) => k) };
}

function byDistance(data, theme, { time, k }) {
  return byCode(codesOf(data, time, k), theme, MAX_CODE);
}

// Codes 0 to `largest` along the ramp; larger ones are unreachable.
function byCode(codes, { ramp }, largest) {
  const number = Int16Array.from(codes, (code) => (code > largest ? -1 : Math.round(code / largest * (RAMP_STEPS - 1))));
  return { number, colours: ramp, order: ramp.map((_, step) => RAMP_STEPS - 1 - step) };
}

function byCorrectness(data, theme) {
  const number = Int16Array.from(data.tested, (tested, node) =>
    (tested ? Number(data.truth[node] !== data.predicted[node]) : -1));
  return { number, colours: [theme.correct, theme.wrong], order: [0, 1] };
}

// The nodes of each colour [{ colour, nodes }], in the order of drawing; faded ones first.
export function layersOf(data, theme, choice) {
  const { number, colours, order } = MODES[choice.mode].paint(data, theme, choice);
  const isFaded = (k) => k < 0 || ((choice.only ?? -2) !== -2 && k !== choice.only);
  const sizes = new Uint32Array(colours.length + 1);
  for (let node = 0; node < data.count; node++) sizes[number[node] + 1] += 1;
  const groups = Array.from(sizes, (size) => new Uint32Array(size)), filled = new Uint32Array(sizes.length);
  for (let node = 0; node < data.count; node++) {
    const group = number[node] + 1;
    groups[group][filled[group]++] = node;
  }
  const sorted = [-1, ...order].sort((a, b) => isFaded(b) - isFaded(a));
  return sorted.map((k) => ({ colour: isFaded(k) ? theme.faint : colours[k], nodes: groups[k + 1] }))
    .filter((layer) => layer.nodes.length);
}

// How many nodes each class has in a mode of classes.
export function countClasses(data, mode) {
  const counts = new Array(data.classes.length).fill(0);
  const classes = { predicted: data.predicted, label: data.label, truth: data.truth }[mode];
  for (const k of classes) if (k >= 0) counts[k] += 1;
  return counts;
}
