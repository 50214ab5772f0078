// Starts the page, and redraws when colours change.

const data = readData();
const map = startMap(data);

function drawSmallMap(button, theme) {
  const canvas = button.querySelector("canvas"), k = Number(button.dataset.class);
  const { context, width, height } = prepared(canvas);
  if (!width || !height) return;
  const frame = frameOf(data, width, height), radius = radiusOf(data, width, height, 1);
  context.clearRect(0, 0, width, height);
  const colours = colouring(data, theme, { colour: "distance", time: data.times.length - 1, k });
  drawNodes(context, data, frame, Math.max(radius, 0.8), colours, theme);
  const sources = data.labelled.filter((node) => data.label[node] === k);
  drawRings(context, data, frame, sources, radius + 0.9, theme.ink, theme.background, sources.length > 50 ? 0.5 : 0.8);
}

const small = [...document.querySelectorAll(".small-map")];

function drawSmallMaps() {
  const theme = readTheme(data.classes.length);
  for (const button of small) drawSmallMap(button, theme);
}

for (const button of small) {
  button.addEventListener("click", () => {
    map.choose({ colour: "distance", k: Number(button.dataset.class), time: data.times.length - 1 });
    document.getElementById("map").scrollIntoView({ block: "nearest" });
  });
}
for (const button of document.querySelectorAll(".show")) {
  const node = drawnNode(data, Number(button.dataset.node));
  if (node < 0) button.disabled = true;
  else button.addEventListener("click", () => map.show(node));
}
for (const chart of document.querySelectorAll(".chart")) startChart(chart);

function refresh() {
  map.refresh();
  drawSmallMaps();
}

// The large map first; the small ones when the browser has painted it.
setTimeout(drawSmallMaps, 0);
if (small.length) new ResizeObserver(() => drawSmallMaps()).observe(small[0].parentElement);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);

// Print is light, with collapsed sections open.
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
