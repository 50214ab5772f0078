// Draws a map on a canvas: small maps, and large ones where WebGL is missing or computed by the processor.

import { packedColour } from "./colours.js";

// In main memory thousands of small discs are drawn faster than by many graphics cards, and equally everywhere.
const IN_MEMORY = { willReadFrequently: true };
// Browsers need far more time for one long path than for many short ones. An even number.
const LINES_AT_ONCE = 500;
// Smaller nodes are squares.
const SMALLEST_DISC = 1.3;

// Resizes a canvas to device pixels; returns their number per CSS pixel.
export function fitCanvas(canvas, width = canvas.clientWidth, height = canvas.clientHeight) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
  return ratio;
}

export function edgeOpacity(edges) {
  return Math.min(Math.max(Math.sqrt(4000 / Math.max(edges.length, 1)), 0.2), 0.8);
}

// Painters have the same methods: `setEdges`, `setLayers` ([{ colour, nodes }]) and `paint`.
// A scene is { view, theme, edges (whether to draw them), radius, marks: [{ nodes, radius, width, colour, opacity }] }.
export class CanvasPainter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", IN_MEMORY);
    this.setEdges([]);
    this.setLayers([]);
  }

  setEdges(edges) { this.edges = edges; }
  setLayers(layers) { this.layers = layers; }

  paint({ view, theme, edges, radius = view.radius, marks = [] }) {
    const ratio = fitCanvas(this.canvas, view.width, view.height), { context } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    if (edges) {
      context.globalAlpha = edgeOpacity(this.edges);
      drawLines(context, view, this.edges, theme.edge, 0.7);
      context.globalAlpha = 1;
    }
    if (radius < SMALLEST_DISC) drawSquares(context, view, this.layers, radius, ratio);
    else for (const { colour, nodes } of this.layers) drawDiscs(context, view, nodes, radius, colour);
    for (const mark of marks) drawRings(context, view, mark, theme.background);
  }
}

export function drawLines(context, view, edges, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  for (let first = 0; first < edges.length; first += LINES_AT_ONCE) {
    context.beginPath();
    for (let e = first; e < Math.min(first + LINES_AT_ONCE, edges.length); e += 2) {
      context.moveTo(view.x(edges[e]), view.y(edges[e]));
      context.lineTo(view.x(edges[e + 1]), view.y(edges[e + 1]));
    }
    context.stroke();
  }
}

function drawDiscs(context, view, nodes, radius, colour) {
  context.fillStyle = colour;
  context.beginPath();
  for (const node of nodes) {
    const x = view.x(node), y = view.y(node);
    if (x < -radius || y < -radius || x > view.width + radius || y > view.height + radius) continue;
    context.moveTo(x + radius, y);
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }
  context.fill();
}

// Writes pixels: ten times faster than paths, so that hundreds of thousands of nodes can be drawn.
function drawSquares(context, view, layers, radius, ratio) {
  const { width, height } = context.canvas, image = context.getImageData(0, 0, width, height);
  const pixels = new Uint32Array(image.data.buffer), size = Math.max(Math.round(2 * ratio * radius), 1);
  for (const { colour, nodes } of layers) {
    const packed = packedColour(colour);
    for (let k = 0; k < nodes.length; k++) {
      const x = Math.round(ratio * view.x(nodes[k]) - size / 2), y = Math.round(ratio * view.y(nodes[k]) - size / 2);
      if (x < 0 || y < 0 || x + size > width || y + size > height) continue;
      for (let row = y; row < y + size; row++) pixels.fill(packed, row * width + x, row * width + x + size);
    }
  }
  context.putImageData(image, 0, 0);
}

// Rings around nodes, outlined in the background colour.
export function drawRings(context, view, { nodes, radius, width, colour, opacity = 1 }, background) {
  context.globalAlpha = opacity;
  for (const [ink, stroke] of [[background, 2.4 * width], [colour, width]]) {
    context.strokeStyle = ink;
    context.lineWidth = stroke;
    context.beginPath();
    for (const node of nodes) {
      context.moveTo(view.x(node) + radius, view.y(node));
      context.arc(view.x(node), view.y(node), radius, 0, 2 * Math.PI);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}
