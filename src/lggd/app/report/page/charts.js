// Reading values off the line charts: a rule follows the pointer and shows the nearest point of every line.

import { element, formatNumber, placeTip, swatch } from "./dom.js";

// Single points are shown at most this far, in percent of the width, from the one under the pointer.
const NEAR = 1;

// The value at a share, 0 to 1, of an axis that is written as "low high logarithmic".
function scale(axis) {
  const [low, high, logarithmic] = axis.split(" ").map(Number);
  return (share) => (logarithmic ? low * (high / low) ** share : low + share * (high - low));
}

function startChart(chart) {
  const plot = chart.querySelector(".plot"), svg = chart.querySelector("svg");
  const x = scale(chart.dataset.x), y = scale(chart.dataset.y);
  const lines = [...svg.querySelectorAll(".line")].map((path) => ({
    name: path.dataset.name, colour: path.style.stroke, dashed: path.classList.contains("dashed"),
    points: [...path.getAttribute("d").matchAll(/([-\d.e]+) ([-\d.e]+)/g)].map(([, x, y]) => [Number(x), Number(y)]),
  })).filter((line) => line.points.length);
  const rule = element("i", { class: "rule", hidden: "" }), tip = element("div", { class: "tip", hidden: "" });
  plot.append(rule, tip);

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const wanted = 100 * (event.clientX - box.left) / box.width;
    const near = lines.map((line) =>
      line.points.reduce((a, b) => (Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a)));
    const at = near.reduce((a, b) => (Math.abs(b[0] - wanted) < Math.abs(a - wanted) ? b[0] : a), near[0][0]);
    const rows = lines.flatMap((line, k) => (line.points.length < 2 && Math.abs(near[k][0] - at) > NEAR ? [] : [element("tr", {},
      element("th", {}, swatch(line.colour), line.name), element("td", {}, formatNumber(y(1 - near[k][1] / 100))))]));
    const value = x(at / 100), words = value < 100 ? formatNumber(value) : Math.round(value).toLocaleString("en");
    tip.replaceChildren(element("strong", {}, `${chart.dataset.xLabel} ${words}`), element("table", {}, ...rows));
    rule.hidden = tip.hidden = false;
    rule.style.left = `${at}%`;
    placeTip(tip, plot, at / 100 * box.width, event.clientY - box.top);
  });
  plot.addEventListener("pointerleave", () => { rule.hidden = tip.hidden = true; });
}

for (const chart of document.querySelectorAll(".chart")) startChart(chart);
