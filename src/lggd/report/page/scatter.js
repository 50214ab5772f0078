// Drawing nodes and edges on a canvas, without state.

const MARGIN = 0.04;

// In main memory thousands of small discs are drawn faster than by many graphics cards, and equally everywhere.
const IN_MEMORY = { willReadFrequently: true };

// Resizes a canvas to device pixels; its context uses CSS pixels.
function prepared(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
  const context = canvas.getContext("2d", IN_MEMORY);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

// The transform from positions to pixels: at zoom 1 the whole graph fits, centred.
function frameOf(data, width, height, view = { zoom: 1, x: 0, y: 0 }) {
  let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
  for (let node = 0; node < data.count; node++) {
    left = Math.min(left, data.x[node]); right = Math.max(right, data.x[node]);
    top = Math.min(top, data.y[node]); bottom = Math.max(bottom, data.y[node]);
  }
  const inner = 1 - 2 * MARGIN;
  const fitted = Math.min(inner * width / Math.max(right - left, 1), inner * height / Math.max(bottom - top, 1));
  const scale = view.zoom * Math.min(fitted, 0.1);
  const x = width / 2 - scale * (left + right) / 2 + view.x, y = height / 2 - scale * (top + bottom) / 2 + view.y;
  return { scale, x, y, width, height };
}

function radiusOf(data, width, height, zoom) {
  const spread = Math.sqrt(Math.min(width, height) ** 2 / Math.max(data.count, 1));
  return Math.min(Math.max(0.24 * spread, 1), 4.5) * zoom ** 0.35;
}

// A colour index for each node, the colours, and their drawing order: the most important last, on top.
// Index -1 is drawn first, in the faint colour.
function colouring(data, theme, { colour, time, k }) {
  if (colour === "distance") return byCode(codesOf(data, time, k), theme, MAX_CODE);
  if (colour === "certainty") return byCode(data.margin, theme, 255);
  if (colour === "correct") {
    const number = Int16Array.from(data.tested, (tested, node) =>
      tested ? Number(data.truth[node] !== data.predicted[node]) : -1);
    return { number, colours: [theme.correct, theme.wrong], order: [0, 1] };
  }
  const number = colour === "truth" ? data.truth : data.predicted;
  return { number, colours: theme.classes, order: theme.classes.map((_, index) => index) };
}

// Codes 0 to `largest` along the ramp; larger ones are unreachable.
function byCode(codes, theme, largest) {
  const number = Int16Array.from(codes, (code) =>
    code > largest ? -1 : Math.round(code / largest * (RAMP_STEPS - 1)));
  return { number, colours: theme.ramp, order: theme.ramp.map((_, step) => RAMP_STEPS - 1 - step) };
}

function drawEdges(context, data, frame, theme) {
  const edges = data.edges.length / 2;
  context.strokeStyle = theme.edge;
  context.globalAlpha = Math.min(Math.max(Math.sqrt(2000 / Math.max(edges, 1)), 0.2), 0.8);
  context.lineWidth = 0.7;
  context.beginPath();
  for (let e = 0; e < data.edges.length; e += 2) {
    const a = data.edges[e], b = data.edges[e + 1];
    context.moveTo(frame.x + frame.scale * data.x[a], frame.y + frame.scale * data.y[a]);
    context.lineTo(frame.x + frame.scale * data.x[b], frame.y + frame.scale * data.y[b]);
  }
  context.stroke();
  context.globalAlpha = 1;
}

// One path per colour. `only` keeps one colour index and fades the others; -2 keeps all.
function drawNodes(context, data, frame, radius, { number, colours, order }, theme, only = -2) {
  const groups = new Map([[-1, []]]);
  for (const one of order) groups.set(one, []);
  for (let node = 0; node < data.count; node++) groups.get(number[node]).push(node);
  const fades = (one) => one === -1 || (only !== -2 && one !== only);
  const sorted = [-1, ...order].sort((a, b) => fades(b) - fades(a));
  for (const one of sorted) {
    context.fillStyle = fades(one) ? theme.faint : colours[one];
    context.beginPath();
    for (const node of groups.get(one)) addDot(context, data, frame, node, radius);
    context.fill();
  }
}

function addDot(context, data, frame, node, radius) {
  const x = frame.x + frame.scale * data.x[node], y = frame.y + frame.scale * data.y[node];
  if (x < -radius || y < -radius || x > frame.width + radius || y > frame.height + radius) return;
  if (radius < 1.3) {
    context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  } else {
    context.moveTo(x + radius, y);
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }
}

// Rings around nodes, outlined in the background colour.
function drawRings(context, data, frame, nodes, radius, ink, background, width) {
  for (const [colour, stroke] of [[background, 2.4 * width], [ink, width]]) {
    context.strokeStyle = colour;
    context.lineWidth = stroke;
    context.beginPath();
    for (const node of nodes) addRing(context, data, frame, node, radius);
    context.stroke();
  }
}

function addRing(context, data, frame, node, radius) {
  const x = frame.x + frame.scale * data.x[node], y = frame.y + frame.scale * data.y[node];
  context.moveTo(x + radius, y);
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

// Rings around labelled nodes, thin ones for classes other than k; k = -1 draws all equally.
function drawLabels(context, data, frame, radius, theme, k) {
  const size = Math.min(Math.max(0.4 * radius, 0.7), 1.4) * (data.labelled.length > 300 ? 0.6 : 1);
  const sources = data.labelled.filter((node) => k < 0 || data.label[node] === k);
  const others = data.labelled.filter((node) => k >= 0 && data.label[node] !== k);
  context.globalAlpha = 0.55;
  drawRings(context, data, frame, others, radius + 1.2 * size, theme.ink, theme.background, 0.6 * size);
  context.globalAlpha = 1;
  drawRings(context, data, frame, sources, radius + 1.5 * size, theme.ink, theme.background, 1.1 * size);
}
