// MapPanel: a GraphMap with its controls (what colours mean, edges, search) and its legend.
//
//   const panel = new MapPanel(element, data, options);   // options of GraphMap, and:
//     find(text)   nodes for a search, an array or a promise of one; by default by name
//     missing      what to say if nothing was found
//   panel.map                the GraphMap
//   panel.update(changes)    that of the map, and brings the legend in step

import { element, formatNumber } from "./dom.js";
import { GraphMap } from "./graph_map.js";
import { findNodes, nameOf } from "./map_data.js";
import { legendContent } from "./map_legend.js";
import { MODES, modesOf } from "./map_modes.js";

export class MapPanel {
  constructor(host, data, options = {}) {
    Object.assign(this, { options, id: options.id ?? "map" });
    const place = element("div", { class: "map-place" });
    this.legend = element("div", { class: "map-legend" });
    host.replaceChildren(place, this.legend);
    this.map = new GraphMap(place, data, { ...options, id: this.id });
    this.data = this.map.data;
    this.controls = element("div", { class: "controls" }, ...this.controlsOf());
    host.prepend(this.controls);
    this.map.addEventListener("choice", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
    this.refresh();
  }

  field(name) { return this.controls.querySelector(`#${this.id}-${name}`); }

  controlsOf() {
    const { data } = this, controls = [this.modeControl()];
    if (data.times.length) controls.push(this.classControl());
    if (data.times.length > 1) controls.push(this.timeControl());
    if (data.edges.length) controls.push(this.edgesControl());
    return [...controls, this.searchControl()];
  }

  control(name, label, input, kind = "") {
    input.id = `${this.id}-${name}`;
    return element("div", { class: `control ${kind}` }, element("label", { for: input.id }, label), input);
  }

  modeControl() {
    const select = element("select");
    select.addEventListener("change", () => this.map.choose({ mode: select.value }));
    return this.control("colour", "Colour by", select);
  }

  classControl() {
    const select = element("select");
    select.addEventListener("change", () => this.map.choose({ k: Number(select.value) }));
    return this.control("class", "to class", select, "of-distance");
  }

  timeControl() {
    const last = this.data.times.length - 1;
    const slider = element("input", { type: "range", min: 0, max: last, step: 1, value: last });
    slider.addEventListener("input", () => this.map.choose({ time: Number(slider.value) }));
    const control = this.control("time", "at time ", slider, "of-distance slider");
    control.querySelector("label").append(element("output", { id: `${this.id}-time-value`, for: slider.id }));
    return control;
  }

  edgesControl() {
    const box = element("input", { type: "checkbox" });
    box.checked = this.map.edgesShown;
    box.addEventListener("change", () => this.map.showEdges(box.checked));
    return this.control("edges", "edges", box, "check");
  }

  searchControl() {
    const known = element("datalist", { id: `${this.id}-names` });
    const input = element("input", { type: "search", list: known.id, placeholder: "id", autocomplete: "off" });
    const find = async () => (this.options.find ? this.options.find(input.value) : findNodes(this.data, input.value));
    input.addEventListener("input", async () => {
      known.replaceChildren(...(await find()).map((node) => element("option", { value: nameOf(this.data, node) })));
    });
    input.addEventListener("keydown", async (event) => {
      if (event.key !== "Enter" || !input.value.trim()) return;
      event.preventDefault();
      this.show(await find());
    });
    const control = this.control("search", "Find node", input, "search");
    control.append(known);
    return control;
  }

  show([node]) {
    if (node !== undefined) return this.map.centre(node);
    const words = this.options.missing ?? "No node has this name.";
    this.map.say(words);
    return this.map.hint(words);
  }

  update(changes, options) {
    const changed = this.map.update(changes, options);
    this.refresh();
    return changed;
  }

  // After the colours of the page changed.
  redraw() {
    this.map.refresh();
    this.refresh();
  }

  // Brings controls and legend in step with the map.
  refresh() {
    const { map, data } = this, { mode, k, time } = map.choice, isDistance = mode === "distance";
    fillSelect(this.field("colour"), modesOf(data).map((name) => [name, MODES[name].title]), mode);
    for (const control of this.controls.querySelectorAll(".of-distance")) control.hidden = !isDistance;
    if (this.field("class")) fillSelect(this.field("class"), data.classes.map((name, each) => [each, name]), k);
    if (this.field("time")) {
      const text = formatNumber(data.times[time]);
      this.field("time").value = String(time);
      this.field("time").setAttribute("aria-valuetext", text);
      this.field("time-value").textContent = text;
    }
    this.legend.replaceChildren(...legendContent(data, map.theme, map.choice, map.labelled.length > 0, (only) => {
      map.choose({ only: map.choice.only === only ? -2 : only });
      this.legend.querySelector(`[data-class="${only}"]`)?.focus();
    }));
  }
}

// Labels may bring new modes and new classes.
function fillSelect(select, options, chosen) {
  if (select.options.length !== options.length) {
    select.replaceChildren(...options.map(([value, name]) => element("option", { value }, name)));
  }
  select.value = String(chosen);
}
