// Reading values off the line charts: a rule follows the pointer and shows the nearest point of every line.

import { element, formatNumber, placeTip, swatch } from "./dom.js";

export function startChart(chart) {
  const plot = chart.querySelector(".plot"), svg = chart.querySelector("svg");
  const [left, right] = chart.dataset.x.split(" ").map(Number);
  const [low, high, logarithmic] = chart.dataset.y.split(" ").map(Number);
  const lines = [...svg.querySelectorAll(".line")].map((path) => ({
    name: path.dataset.name, colour: path.style.stroke, dashed: path.classList.contains("dashed"),
    points: [...path.getAttribute("d").matchAll(/([-\d.e]+) ([-\d.e]+)/g)].map(([, x, y]) => [Number(x), Number(y)]),
  })).filter((line) => line.points.length);
  const rule = element("i", { class: "rule", hidden: "" }), tip = element("div", { class: "tip", hidden: "" });
  plot.append(rule, tip);

  const valueAt = (y) => {
    const share = 1 - y / 100;
    return logarithmic ? low * (high / low) ** share : low + share * (high - low);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const wanted = 100 * (event.clientX - box.left) / box.width;
    const near = lines.map((line) =>
      line.points.reduce((a, b) => (Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a)));
    const x = near.reduce((a, b) => (Math.abs(b[0] - wanted) < Math.abs(a - wanted) ? b[0] : a), near[0][0]);
    const rows = lines.map((line, k) => element("tr", {},
      element("th", {}, swatch(line.colour), line.name), element("td", {}, formatNumber(valueAt(near[k][1])))));
    const at = Math.round(left + x / 100 * (right - left));
    tip.replaceChildren(element("strong", {}, `${chart.dataset.xLabel} ${at.toLocaleString("en")}`),
      element("table", {}, ...rows));
    rule.hidden = tip.hidden = false;
    rule.style.left = `${x}%`;
    placeTip(tip, plot, x / 100 * box.width, event.clientY - box.top);
  });
  plot.addEventListener("pointerleave", () => { rule.hidden = tip.hidden = true; });
}
