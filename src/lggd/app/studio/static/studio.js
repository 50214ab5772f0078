// The studio: keeps the map and the cards in step with the service, and turns clicks and keys into labels.

import { get, inPath, post, postTable } from "./api.js";
import { classColour } from "./colours.js";
import { button, element, formatCount, shorten, swatch } from "./dom.js";
import { codesOf, MAX_CODE, UNREACHABLE } from "./map_data.js";
import { MapPanel } from "./map_panel.js";
import { accuracyText, confusionTable, countsTable, curves, curvesLegend, historyItem, nodeContent, queueItem, suspiciousItem, whyContent } from "./panels.js";

const SUGGESTIONS = "suggestions?count=12", SUSPICIOUS = "suspicious?count=20";
const $ = (id) => document.getElementById(id);
const state = { revision: -1, instance: null, versions: [], selected: [], following: false, queue: [], suspicious: [], why: undefined, ids: [], data: null, panel: null };

// -- words

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", isError);
}

const author = () => encodeURIComponent($("author").value.trim());

// -- reading

function mapData(graph) {
  return {
    count: graph.num_nodes, x: Uint16Array.from(graph.x), y: Uint16Array.from(graph.y),
    edges: Uint32Array.from(graph.edges), edgesAreSampled: graph.edges.length / 2 < graph.num_edges,
    classes: graph.classes, names: graph.ids, truth: Int16Array.from(graph.truth), times: [0],
    ...noDistances(graph.num_nodes, graph.classes.length),
  };
}

function noDistances(count, classes) {
  return { distances: [new Uint8Array(count * classes).fill(UNREACHABLE)], scales: [Array.from({ length: classes }, () => [0, 0, 0, 0])] };
}

async function start() {
  $("author").value = localStorage.getItem("lggd author") ?? "";
  const graph = await get("graph");
  document.title = `${graph.name} · lggd studio`;
  $("title").textContent = graph.name;
  Object.assign(state, { instance: graph.instance, ids: graph.ids, number: new Map(graph.ids.map((id, k) => [id, k])), numEdges: graph.num_edges });
  state.panel = new MapPanel($("map-panel"), mapData(graph), {
    id: "map", mode: "predicted", lasso: true, tip, neighbours, find, missing: "No node has this id or attribute.",
  });
  const { map } = state.panel;
  state.data = map.data;
  map.addEventListener("pick", ({ detail }) => select(detail.node < 0 ? [] : [detail.node]));
  map.addEventListener("select", ({ detail }) => select([...detail.nodes]));
  map.addEventListener("choice", ({ detail }) => { if (detail.mode === "distance") loadDistances(detail.k); });
  apply(await get("predictions"));
  showClasses();
  select([]);
  listen();
  loadCards();
}

let loading = null;

// Loads predictions until they are at least as new as a revision; calls at the same time share a request.
async function loadPredictions(revision) {
  while (state.revision < revision) {
    loading ??= get("predictions").then(apply).finally(() => { loading = null; });
    await loading;
  }
}

function apply(predictions) {
  const { data, panel } = state, isFirst = state.revision < 0;
  if (predictions.revision < state.revision) return;
  const hasNewClasses = predictions.classes.length !== data.classes.length, hadPredictions = data.predicted.some((k) => k >= 0);
  state.revision = predictions.revision;
  state.versions = predictions.versions;
  const changed = panel.update({
    predicted: Int16Array.from(predictions.predicted), label: Int16Array.from(predictions.labels),
    probability: Uint16Array.from(predictions.certainty, (p) => Math.round(65535 * p)),
    margin: Uint8Array.from(predictions.certainty, (p) => Math.round(255 * p)),
    ...(hasNewClasses ? { classes: predictions.classes, ...noDistances(data.count, predictions.classes.length) } : {}),
  }, { flash: hadPredictions && !isFirst });
  if (hasNewClasses) showClasses();
  const labels = panel.map.labelled.length;
  $("facts").textContent = `${formatCount(data.count, "node")}, ${formatCount(state.numEdges, "edge")}, ${formatCount(labels, "label")}`;
  document.documentElement.dataset.revision = predictions.revision;
  if (panel.map.choice.mode === "distance") loadDistances(panel.map.choice.k);
  if (!isFirst && !$("status").classList.contains("error")) { // an error stays until the next own change
    const more = predictions.choosing ? "; looking for better settings …" : "";
    say(`${formatCount(changed.length, "prediction")} changed in ${predictions.milliseconds.toFixed(1)} ms${more}`);
  } else if (isFirst) say(predictions.choosing ? "Choosing settings …" : "Ready.");
  pressClass();
}

async function loadDistances(k) {
  const { data, panel } = state;
  if (k >= data.classes.length) return;
  const answer = await get(`distances?label=${inPath(data.classes[k])}`);
  if (answer.revision < state.revision) return; // newer ones are on their way
  const high = answer.distances.reduce((most, value) => Math.max(most, value), 1e-9); // unreachable: null, less than any
  const codes = codesOf(data, 0, k);
  answer.distances.forEach((value, node) => { codes[node] = value === null ? UNREACHABLE : Math.round(MAX_CODE * value / high); });
  data.scales[0][k] = [0, high, 0, 0];
  panel.map.recolour();
  panel.refresh();
}

// Cards may lag behind the map; only the last of several reloads counts.
let cards = 0;
async function loadCards() {
  cards += 1;
  const own = cards;
  const load = async (path, show) => {
    const answer = await get(path);
    if (own === cards) show(answer);
  };
  await Promise.all([
    load("progress", showProgress), load("history?count=50", showHistory),
    load(SUGGESTIONS, showQueue), load(SUSPICIOUS, showSuspicious),
  ]).catch((error) => say(error.message, true));
}

function showProgress(progress) {
  $("accuracy").textContent = accuracyText(progress);
  $("curves").replaceChildren(curvesLegend(), curves(progress.curve));
  $("counts").replaceChildren(countsTable(progress));
  $("confusion").replaceChildren(confusionTable(progress));
}

function showHistory(changes) {
  $("history").replaceChildren(...changes.map(historyItem));
}

function showQueue(items) {
  state.queue = items;
  $("queue").replaceChildren(...state.queue.map((item) => queueItem(item, state.data.classes, () => go(item.number, true))));
  showCurrent();
}

function showSuspicious(labels) {
  state.suspicious = labels;
  const items = state.suspicious.map((item) => suspiciousItem(item, state.data.classes, {
    show: () => go(item.number), keep: () => keep(item), correct: () => correct(item),
  }));
  $("suspicious").replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, "Nothing at the moment.")]));
  showCurrent();
}

// Marks the selected node in the lists, and says why it is in one.
function showCurrent() {
  const current = state.selected.length === 1 ? state.ids[state.selected[0]] : null;
  for (const item of document.querySelectorAll("#queue li, #suspicious li")) item.setAttribute("aria-current", String(item.dataset.node === current));
  const isCurrent = (item) => item.node === current, suspect = state.suspicious.find(isCurrent);
  const actions = { keep: () => keep(suspect), correct: () => correct(suspect) };
  // A node that was chosen from the queue keeps its reason when a newer queue is without it.
  const kept = state.why?.node === current && state.data.label[state.why.number] < 0 ? state.why : undefined;
  state.why = state.queue.find(isCurrent) ?? kept;
  $("why").replaceChildren(...whyContent(state.why, suspect, state.data.classes, actions));
}

// -- the selection

const details = new Map();

// The details of a node, requested once for each revision.
function about(node) {
  const key = `${state.revision} ${node}`;
  if (!details.has(key)) {
    if (details.size > 500) details.clear();
    details.set(key, get(`nodes/${inPath(state.ids[node])}`));
    details.get(key).catch(() => details.delete(key)); // the next time it may answer
  }
  return details.get(key);
}

async function tip(node) { return nodeContent(await about(node), state.data.classes); }

async function neighbours(node) { return (await about(node)).neighbours.map((id) => state.number.get(id)); }

async function find(text) {
  if (!text.trim()) return [];
  return (await get(`nodes?query=${encodeURIComponent(text)}&count=8`)).map((id) => state.number.get(id));
}

function select(nodes, following = false) {
  Object.assign(state, { selected: nodes, following });
  state.panel.map.select(nodes);
  showCurrent();
  pressClass();
  showSelected();
}

async function showSelected() {
  const { selected } = state;
  if (selected.length === 1) {
    const content = nodeContent(await about(selected[0]), state.data.classes);
    if (state.selected === selected) $("node").replaceChildren(...content);
  } else {
    const words = selected.length ? `${formatCount(selected.length, "node")} selected.` : "Choose a node on the map, draw a lasso, or press N. Then choose a class, by its button or a number key.";
    $("node").replaceChildren(element("p", { class: "quiet" }, words));
  }
}

function go(node, following = false) {
  select([node], following);
  state.panel.map.reveal(node);
}

function goNext(items, following = false) {
  const at = items.findIndex((item) => item.number === state.selected[0]);
  const next = items[(at + 1) % items.length];
  if (next) go(next.number, following);
}

// The best node of the queue that has no label yet.
const follow = () => goNext(state.queue.filter((item) => state.data.label[item.number] < 0), true);

// -- labelling

// A class called 7 has the key 7; otherwise keys count from 1.
function keyOf(k) {
  const { classes } = state.data, areDigits = classes.every((name) => /^\d$/.test(name));
  if (areDigits) return classes[k];
  return k < 9 ? String(k + 1) : k === 9 ? "0" : "";
}

function showClasses() {
  const made = state.data.classes.map((name, k) => {
    const key = keyOf(k), one = button({ "data-class": k, "aria-pressed": "false", ...(key ? { "aria-keyshortcuts": key } : {}) }, "", () => label(k));
    one.replaceChildren(swatch(classColour(k)), shorten(name, 40), ...(key && key !== name ? [element("kbd", {}, key)] : []));
    return one;
  });
  const remove = button({ id: "remove", "aria-keyshortcuts": "Delete" }, "Remove label", () => label(null));
  $("classes").replaceChildren(...made, remove);
  pressClass();
}

function pressClass() {
  const { selected, data } = state, own = selected.length === 1 ? data.label[selected[0]] : -1;
  for (const one of $("classes").querySelectorAll("button")) {
    one.disabled = !selected.length;
    if (one.dataset.class !== undefined) one.setAttribute("aria-pressed", String(Number(one.dataset.class) === own));
  }
}

async function change(send, then = () => {}) {
  $("status").classList.remove("error");
  try {
    const answer = await send();
    await loadPredictions(answer.revision);
    loadCards();
    showSelected();
    then(answer);
  } catch (error) {
    if (error.status === 409) {
      apply(await get("predictions"));
      loadCards();
      const [{ node, label: present }] = error.labels;
      say(`${error.message} Node ${shorten(node, 30)} now has ${present === null ? "no label" : `the label ${shorten(present, 30)}`}.`, true);
    } else say(error.message, true);
  }
}

function label(k) {
  const { selected, data, versions, ids } = state;
  if (!selected.length) return say("Select a node first.");
  const labels = selected.map((node) => ({ node: ids[node], label: k === null ? null : data.classes[k], version: versions[node] }));
  return change(() => post(`labels?author=${author()}`, { labels }), () => {
    if (state.following && selected === state.selected) follow(); // one key a label
  });
}

const undo = () => change(() => post(`undo?author=${author()}`));
const redo = () => change(() => post(`redo?author=${author()}`));
const keep = (item) => change(() => post(`keep?author=${author()}`, { node: item.node }));
const correct = (item) => change(() => post(`labels?author=${author()}`, { labels: [{ node: item.node, label: item.suggested, version: item.version }] }));

async function upload(file) {
  const fresh = $("upload-new").checked;
  // As it is on the disk: the service says which bytes are not UTF-8, instead of the browser replacing them.
  await change(() => postTable(`upload?author=${author()}&new_classes=${fresh}`, file), ({ rows }) => say(`${formatCount(rows, "label")} read from ${shorten(file.name, 40)}.`));
  $("upload").value = "";
}

// -- events

function listen() {
  const events = new EventSource("/api/events");
  events.addEventListener("labels", async ({ data }) => {
    const news = JSON.parse(data);
    if (news.revision === state.revision) return;
    if (news.revision < state.revision) {
      const { instance } = await get("health");
      if (instance !== state.instance) return location.reload(); // the studio was started again
    }
    await loadPredictions(news.revision);
    loadCards();
    if (state.selected.length === 1) showSelected();
  });
  events.addEventListener("queue", () => {
    get(SUGGESTIONS).then(showQueue).catch(() => {});
    get(SUSPICIOUS).then(showSuspicious).catch(() => {});
  });
  events.addEventListener("curve", () => get("progress").then(showProgress).catch(() => {}));
  events.addEventListener("error", () => say("Connecting …"));
  events.addEventListener("open", () => { if ($("status").textContent === "Connecting …") say("Ready."); });
}

const typing = (target) => target.matches("input, select, textarea");

addEventListener("keydown", (event) => {
  const command = event.ctrlKey || event.metaKey, key = event.key.toLowerCase();
  if (typing(event.target) || event.altKey || !state.panel) return;
  if (command && (key === "y" || (key === "z" && event.shiftKey))) redo();
  else if (command && key === "z") undo();
  else if (command) return;
  else if (/^\d$/.test(key)) {
    const k = state.data.classes.findIndex((_, index) => keyOf(index) === key);
    if (k >= 0) label(k);
  } else if (key === "delete" || key === "backspace") label(null);
  else if (key === "n") goNext(state.queue, true);
  else if (key === "w") goNext(state.suspicious);
  else if (key === "k" || key === "c") {
    const item = state.suspicious.find(({ number }) => number === state.selected[0]);
    if (item) (key === "k" ? keep : correct)(item);
  } else if (key === "/") state.panel.field("search").focus();
  else return;
  event.preventDefault();
});

$("undo").addEventListener("click", undo);
$("redo").addEventListener("click", redo);
$("author").addEventListener("change", () => localStorage.setItem("lggd author", $("author").value.trim()));
$("upload").addEventListener("change", ({ target }) => { if (target.files[0]) upload(target.files[0]); });
for (const link of document.querySelectorAll("#files .predicted")) {
  link.addEventListener("click", (event) => {
    if (state.data?.predicted.some((k) => k >= 0)) return;
    event.preventDefault();
    say("Label nodes of two classes first: there are no predictions yet.", true);
  });
}
$("new-class").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("class-name").value.trim();
  change(() => post("classes", { name }), () => { $("class-name").value = ""; say(`Class ${shorten(name, 40)} added.`); });
});

start().catch((error) => say(error.message, true));
