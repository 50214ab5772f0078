// Starts the report: maps, charts, downloads and printing.

import "./charts.js";
import { readTheme } from "./colours.js";
import { saveFile, toCSV } from "./dom.js";
import { CanvasPainter } from "./map_canvas.js";
import { drawnNode, labelledNodes, MAX_PROBABILITY, nameOf, unpackMap } from "./map_data.js";
import { layersOf } from "./map_modes.js";
import { MapPanel } from "./map_panel.js";
import { MapView } from "./map_view.js";

const raw = JSON.parse(document.getElementById("report-data").textContent);
const data = unpackMap(raw);
const panel = new MapPanel(document.getElementById("map-panel"), data, {
  missing: data.numbers ? "No drawn node has this id: the map shows a sample." : undefined,
});

// -- small maps: the distances to each class

const small = [...document.querySelectorAll(".small-map")];
const lastTime = data.times.length - 1;
const view = new MapView(data);

function drawSmallMap(button, theme) {
  const canvas = button.querySelector("canvas"), k = Number(button.dataset.class);
  if (!canvas.clientWidth || !canvas.clientHeight) return;
  view.resize(canvas.clientWidth, canvas.clientHeight);
  const painter = new CanvasPainter(canvas), radius = Math.max(view.radius, 0.8);
  const sources = labelledNodes(data).filter((node) => data.label[node] === k);
  const ring = { nodes: sources, radius: radius + 0.9, width: sources.length > 50 ? 0.5 : 0.8, colour: theme.ink };
  painter.setLayers(layersOf(data, theme, { mode: "distance", time: lastTime, k }));
  painter.paint({ view, theme, radius, edges: false, marks: [ring] });
}

function drawSmallMaps() {
  const theme = readTheme(data.classes.length);
  for (const button of small) drawSmallMap(button, theme);
}

function pressSmallMap() {
  const { mode, time, k } = panel.map.choice;
  for (const button of small) {
    const isChosen = mode === "distance" && time === lastTime && Number(button.dataset.class) === k;
    button.setAttribute("aria-pressed", String(isChosen));
  }
}

panel.map.addEventListener("choice", pressSmallMap);
pressSmallMap();
for (const button of small) {
  button.addEventListener("click", () => {
    panel.map.choose({ mode: "distance", k: Number(button.dataset.class), time: lastTime });
    panel.map.stage.scrollIntoView({ block: "nearest" });
  });
}
// The large map first; the small ones when the browser has painted it.
setTimeout(drawSmallMaps, 0);
if (small.length) new ResizeObserver(drawSmallMaps).observe(small[0].parentElement);

// -- nodes in tables

function showOnMap(node) {
  panel.map.stage.scrollIntoView({ block: "center" });
  panel.map.surface.focus({ preventScroll: true });
  panel.map.centre(node);
}

for (const button of document.querySelectorAll(".show")) {
  const node = drawnNode(data, Number(button.dataset.node));
  if (node < 0) button.disabled = true;
  else button.addEventListener("click", () => showOnMap(node));
}

// -- downloads: all nodes, also those that are not drawn

const table = raw.table ? unpackMap(raw.table) : { ...data, numbers: null };

function predictionRows() {
  const className = (k) => (k < 0 ? "" : data.classes[k]);
  const rows = [["node", "predicted", "probability", "labelled", "true class", "test"]];
  for (let node = 0; node < table.count; node++) {
    rows.push([nameOf(table, node), className(table.predicted[node]), (table.probability[node] / MAX_PROBABILITY).toFixed(4),
      className(table.label[node]), className(table.truth[node]), table.tested[node]]);
  }
  return rows;
}

function labelRows() {
  const rows = labelledNodes(table).map((node) => [nameOf(table, node), data.classes[table.label[node]]]);
  return [["id", "label"], ...rows];
}

const downloads = { predictions: predictionRows, labels: labelRows };
for (const button of document.querySelectorAll(".download")) {
  const { file } = button.dataset;
  button.addEventListener("click", () => saveFile(`${file}.csv`, toCSV(downloads[file]())));
}

// -- themes and paper: print is light, with collapsed sections open

function refresh() {
  panel.redraw();
  drawSmallMaps();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSmallMaps);
const collapsed = [...document.querySelectorAll("details")];
let opened = [];
addEventListener("beforeprint", () => {
  opened = collapsed.filter((one) => !one.open);
  for (const one of opened) one.open = true;
  document.documentElement.classList.add("printing");
  refresh();
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
  document.documentElement.classList.remove("printing");
  refresh();
});
