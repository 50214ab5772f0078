// GraphMap: an interactive map of a graph. The report of a run and the label studio use the same component.
//
//   const map = new GraphMap(element, data, { id: "map", mode: "predicted", lasso: true });
//   map.addEventListener("select", ({ detail }) => label(detail.nodes));
//
// `data` is described in map_data.js. Options, all of them optional:
//   id                of the focusable canvas
//   mode              what colours mean at first, a key of MODES in map_modes.js
//   lasso             whether nodes can be selected: by the button, by the key L, or by dragging with Shift
//   tip(node)         the content of the tooltip, an array of elements or a promise of one
//   neighbours(node)  an array of nodes or a promise of one; by default those of `data.edges`
//   painter           "webgl" or "canvas"; by default WebGL for all but small graphs, if there is a graphics processor
//
// Events, with their `detail`:
//   hover { node }    the node under the pointer, -1 for none
//   pick { node }     a click or the Enter key; -1 beside all nodes
//   select { nodes }  the nodes inside a lasso
//   choice { mode, k, time, only }   after `choose`
//
// Methods: update, choose, showEdges, centre, reveal, select, flash, setTool, zoomBy, fit, say, refresh, destroy; see below.
// Keys: + and − zoom, Home shows the whole graph, arrows move; with Shift, arrows walk from node to node; Enter picks,
// Escape lets go. Digits and other letters are free for the page.

import { readTheme } from "./colours.js";
import { button, element, placeTip } from "./dom.js";
import { CanvasPainter, drawLines, drawRings, fitCanvas } from "./map_canvas.js";
import { labelledNodes, withDefaults } from "./map_data.js";
import { listenToGestures } from "./map_gestures.js";
import { describeMap, nodeInWords, tipContent } from "./map_legend.js";
import { layersOf, modesOf } from "./map_modes.js";
import { MapView } from "./map_view.js";
import { WebGLPainter } from "./map_webgl.js";

// A canvas is fast enough for fewer nodes and edges; more edges than the second number are drawn only on demand.
const WEBGL_FROM = 5_000, MAX_EDGES = 200_000;
// More than these are drawn without edges while the map moves.
const MAX_IN_MOTION = 50_000;
const POINTER_RADIUS = 14, FLASH_TIME = 1_200, HINT_TIME = 1_600, REST_AFTER_MOTION = 160;
const STILL = matchMedia("(prefers-reduced-motion: reduce)"), DARK = matchMedia("(prefers-color-scheme: dark)");

export class GraphMap extends EventTarget {
  constructor(host, data, options = {}) {
    super();
    data = withDefaults(data);
    Object.assign(this, { data, options, view: new MapView(data), selection: [], hovered: -1, pinned: -1, tool: "pan" });
    this.choice = { mode: modesOf(data)[0], k: 0, time: data.times.length - 1, only: -2 };
    if (modesOf(data).includes(options.mode)) this.choice.mode = options.mode;
    const edges = data.edges.length / 2;
    this.edgesShown = edges > 0 && edges <= MAX_EDGES && !data.edgesAreSampled;
    this.build(host);
    this.usePainter(options.painter ?? (data.count + edges > WEBGL_FROM ? "webgl" : "canvas"));
    listenToGestures(this, this.stage, this.surface);
    this.refresh = this.refresh.bind(this);
    DARK.addEventListener("change", this.refresh);
    this.observer = new ResizeObserver(() => this.paintSoon());
    this.observer.observe(this.stage);
    this.refresh();
  }

  build(host) {
    this.picture = element("canvas", { class: "map-picture", "aria-hidden": "true" });
    this.surface = element("canvas", {
      class: "map-surface", tabindex: "0", role: "application", "aria-roledescription": "graph map",
      ...(this.options.id ? { id: this.options.id } : {}),
    });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.hintText = element("p", { class: "map-hint", "aria-hidden": "true" });
    this.live = element("p", { class: "map-live", role: "status" });
    const zoom = element("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
      button({ "aria-label": "Zoom in", class: "zoom-in" }, "+", () => this.zoomBy(1.6)),
      button({ "aria-label": "Zoom out", class: "zoom-out" }, "−", () => this.zoomBy(1 / 1.6)),
      button({ "aria-label": "Show the whole graph", class: "zoom-fit" }, "fit", () => this.fit()));
    if (this.options.lasso) {
      this.lassoButton = button({ "aria-label": "Select nodes with a lasso", class: "lasso", "aria-pressed": "false" },
        "◌", () => this.setTool(this.tool === "lasso" ? "pan" : "lasso"));
      zoom.append(this.lassoButton);
    }
    this.stage = element("div", { class: "map-stage" }, this.picture, this.surface, zoom, this.tip, this.hintText,
      this.live);
    host.replaceChildren(this.stage);
  }

  // A canvas has one kind of context for ever: another painter needs another canvas.
  usePainter(kind) {
    try {
      const anyhow = this.options.painter === "webgl";
      this.painter = kind === "webgl" ? new WebGLPainter(this.picture, this.data, anyhow) : new CanvasPainter(this.picture);
      this.picture.addEventListener("webglcontextlost", () => { this.fallBack(); this.refresh(); }, { once: true });
      this.painter.setEdges(this.data.edges);
    } catch {
      this.fallBack();
    }
  }

  fallBack() {
    const fresh = this.picture.cloneNode();
    this.picture.replaceWith(fresh);
    this.picture = fresh;
    this.usePainter("canvas");
  }

  emit(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  // -- what is shown

  // Replaces arrays of the data, such as { predicted, second, probability, margin, label } or { classes }; returns the
  // nodes whose prediction changed, and lets them flash. Other nodes or edges need another map.
  update(changes, { flash = true } = {}) {
    const before = this.data.predicted;
    Object.assign(this.data, changes);
    const after = this.data.predicted, changed = [];
    for (let node = 0; node < this.data.count; node++) if (before[node] !== after[node]) changed.push(node);
    if (changes.classes) this.theme = readTheme(this.data.classes.length);
    this.recolour();
    if (flash) this.flash(changed);
    return changed;
  }

  // Changes what colours mean: { mode, k, time, only }. `only` is the one class that is not faded, -2 for all.
  choose(changes) {
    Object.assign(this.choice, { only: -2 }, changes);
    this.recolour();
    this.emit("choice", { ...this.choice });
  }

  showEdges(shown) {
    this.edgesShown = shown;
    this.paintSoon();
  }

  // Zooms in on a node and picks it out, with its tooltip.
  centre(node) {
    this.view.centreOn(node);
    this.moved();
    this.pinned = node;
    this.say(nodeInWords(this.data, node));
    this.paint();
    this.look(-1);
  }

  // Picks a node out where it is, without a tooltip, so that changes elsewhere stay in sight; the map moves only if the
  // node is outside.
  reveal(node) {
    this.pinned = node;
    this.hovered = -1;
    this.moveInside(node);
    this.say(nodeInWords(this.data, node));
    this.findNeighbours(node);
    this.tip.hidden = true;
    this.paint();
  }

  moveInside(node) {
    const { view } = this, [x, y] = [view.x(node), view.y(node)];
    if (x < 0 || y < 0 || x > view.width || y > view.height) this.moveBy(view.width / 2 - x, view.height / 2 - y);
  }

  select(nodes) {
    this.selection = [...nodes];
    this.paintSoon();
  }

  // Draws the eye to nodes for a moment; the rings stand still for people who prefer reduced motion.
  flash(nodes) {
    if (nodes.length) this.flashing = { nodes, start: performance.now() };
    this.paintSoon();
  }

  setTool(tool) {
    this.tool = tool;
    this.stage.classList.toggle("lassoing", tool === "lasso");
    this.lassoButton?.setAttribute("aria-pressed", String(tool === "lasso"));
  }

  zoomBy(factor, x, y) {
    this.view.zoomBy(factor, x, y);
    this.moved();
  }

  moveBy(dx, dy) {
    this.view.moveBy(dx, dy);
    this.moved();
  }

  fit() {
    this.view.fit();
    this.moved();
  }

  // Tells screen readers.
  say(text) { this.live.textContent = text; }

  hint(text) {
    this.hintText.textContent = text;
    this.hintText.classList.add("shown");
    clearTimeout(this.hintTimer);
    this.hintTimer = setTimeout(() => this.hintText.classList.remove("shown"), HINT_TIME);
  }

  // Reads the colours of the page again, and draws at once.
  refresh() {
    this.theme = readTheme(this.data.classes.length);
    this.recolour();
    this.paint();
  }

  destroy() {
    DARK.removeEventListener("change", this.refresh);
    this.observer.disconnect();
    this.stage.remove();
  }

  // -- drawing

  recolour() {
    this.labelled = labelledNodes(this.data);
    this.painter.setLayers(layersOf(this.data, this.theme, this.choice));
    this.surface.setAttribute("aria-label", describeMap(this.data, this.choice, this.labelled.length));
    this.paintSoon();
    if (!this.tip.hidden) this.look(this.hovered);
  }

  paintSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    if (width !== this.view.width || height !== this.view.height) this.view.resize(width, height);
    const isCoarse = this.inMotion && this.data.count + this.data.edges.length / 2 > MAX_IN_MOTION;
    this.painter.paint({
      view: this.view, theme: this.theme, edges: this.edgesShown && !isCoarse, marks: this.marks(),
    });
    this.paintSurface();
    if (this.flashing) this.paintSoon();
  }

  // Rings: labelled nodes (thin ones for classes other than the one whose distances are shown), selected and changed.
  marks() {
    const { choice, data, theme, labelled } = this, { radius } = this.view;
    const size = Math.min(Math.max(0.4 * radius, 0.7), 1.4) * (labelled.length > 300 ? 0.6 : 1);
    const isOther = (node) => choice.mode === "distance" && data.label[node] !== choice.k;
    const ring = (nodes, gap, width, colour, opacity = 1) => ({ nodes, radius: radius + gap, width, colour, opacity });
    return [
      ring(labelled.filter(isOther), 1.2 * size, 0.6 * size, theme.ink, 0.55),
      ring(labelled.filter((node) => !isOther(node)), 1.5 * size, 1.1 * size, theme.ink),
      ring(this.selection, 1.5, 1.3, theme.accent),
      ...this.flashMark(ring),
    ].filter((mark) => mark.nodes.length);
  }

  flashMark(ring) {
    if (!this.flashing) return [];
    const share = (performance.now() - this.flashing.start) / FLASH_TIME;
    if (share >= 1) {
      this.flashing = null;
      return [];
    }
    const grown = STILL.matches ? 0.3 : share;
    return [ring(this.flashing.nodes, 2 + 10 * grown, 2, this.theme.wrong, STILL.matches ? 1 : 1 - share)];
  }

  // Above the picture: the node of interest with its edges, and the lasso.
  paintSurface() {
    const { view, theme, surface } = this, context = surface.getContext("2d");
    const ratio = fitCanvas(surface, view.width, view.height), node = this.shown;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    if (node >= 0) {
      if (this.around?.node === node) drawLines(context, view, this.around.edges, theme.accent, 1.2);
      drawRings(context, view, { nodes: [node], radius: view.radius + 4, width: 2.5, colour: theme.accent }, theme.background);
    }
    if (!this.lasso) return;
    context.beginPath();
    for (const [x, y] of this.lasso) context.lineTo(x, y);
    context.closePath();
    Object.assign(context, { strokeStyle: theme.accent, fillStyle: theme.accent, lineWidth: 1.5 });
    context.stroke();
    context.globalAlpha = 0.12;
    context.fill();
    context.globalAlpha = 1;
  }

  // While a large map moves, it is drawn coarsely.
  moved() {
    this.inMotion = true;
    clearTimeout(this.motionTimer);
    this.motionTimer = setTimeout(() => { this.inMotion = false; this.paintSoon(); }, REST_AFTER_MOTION);
    // A finger scrolls the page unless the map is zoomed.
    this.surface.style.touchAction = this.view.zoom > 1 ? "none" : "pan-y";
    this.tip.hidden = true;
    this.hovered = -1;
    this.paintSoon();
  }

  // -- the node of interest

  nodeAt(x, y) { return this.view.nearest(x, y, POINTER_RADIUS); }

  // The node under the pointer, or the picked one; -1 for none.
  get shown() { return this.hovered >= 0 ? this.hovered : this.pinned; }

  // Shows the node under the pointer, or the picked one for -1.
  look(node) {
    if (node !== this.hovered) this.emit("hover", { node });
    this.hovered = node;
    const { shown } = this;
    this.findNeighbours(shown);
    this.paintSurface();
    this.tip.hidden = shown < 0;
    if (shown >= 0) this.fillTip(shown);
  }

  fillTip(node) {
    const fill = (content) => {
      if (node !== this.shown) return;
      this.tip.replaceChildren(...content);
      placeTip(this.tip, this.stage, this.view.x(node), this.view.y(node));
    };
    const content = this.options.tip ? this.options.tip(node) : tipContent(this.data, node, this.choice);
    if (content instanceof Promise) content.then(fill);
    else fill(content);
  }

  findNeighbours(node) {
    if (node < 0 || this.around?.node === node) return;
    const set = (nodes) => { this.around = { node, edges: nodes.flatMap((other) => [node, other]) }; };
    const neighbours = this.options.neighbours ? this.options.neighbours(node) : neighboursOf(this.data.edges, node);
    if (!(neighbours instanceof Promise)) set(neighbours);
    else neighbours.then((nodes) => { // they may come late
      if (node !== this.shown) return;
      set(nodes);
      this.paintSurface();
    });
  }

  pick(node) {
    this.pinned = node;
    if (node >= 0) this.say(nodeInWords(this.data, node));
    this.look(node);
    this.emit("pick", { node });
  }

  letGo() {
    this.pinned = -1;
    this.select([]);
    this.setTool("pan");
    this.look(-1);
  }

  // Walks to the next node in a direction, from the middle at first.
  walk(dx, dy) {
    const { view } = this, from = this.pinned >= 0 ? this.pinned : view.nearest(view.width / 2, view.height / 2, Infinity);
    const next = this.pinned < 0 ? from : view.neighbourTowards(from, dx, dy);
    if (next < 0) return;
    this.pinned = next;
    this.moveInside(next);
    this.say(nodeInWords(this.data, next));
    this.look(-1);
  }

  endLasso() {
    const nodes = this.view.inside(this.lasso);
    this.lasso = null;
    this.select(nodes);
    this.say(`${nodes.length} nodes selected`);
    this.emit("select", { nodes });
  }
}

function neighboursOf(edges, node) {
  const neighbours = [];
  for (let e = 0; e < edges.length; e += 2) {
    if (edges[e] === node) neighbours.push(edges[e + 1]);
    else if (edges[e + 1] === node) neighbours.push(edges[e]);
  }
  return neighbours;
}
