// What the large map tells in words: its legend, a node under the pointer, and itself to those who do not see it.

const DISTANCES_TOLD = 6;

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function swatch(colour, kind = "swatch") {
  const made = element("i", { class: kind });
  made.style.setProperty("--colour", colour);
  return made;
}

function mapInWords(data, { colour, time, k }) {
  const what = {
    distance: `distance to class ${data.classes[k]} at time ${inWords(data.times[time])}`,
    predicted: "predicted class", truth: "true class", right: "right or wrong", certainty: "certainty",
  }[colour];
  const range = colour === "distance" ? `, ${scaleInWords(data, time, k).join(", ")}` : "";
  return `Map of ${data.count} nodes coloured by ${what}${range}; ${data.labels.length} labelled nodes have rings.`;
}

function legendContent(data, theme, choice, pick) {
  const item = (...content) => element("span", { class: "item" }, ...content);
  const ring = item(swatch(theme.ink, "ring"), "labelled");
  if (choice.colour === "distance" || choice.colour === "certainty") {
    const bar = element("i", { class: "gradient" });
    bar.style.background = `linear-gradient(to right, ${theme.ramp.filter((_, k) => k % 7 === 0).join(",")})`;
    const codes = choice.colour === "distance" ? codesOf(data, choice.time, choice.k) : [];
    const nothing = codes.length > 0 && codes.every((code) => code === OUT_OF_REACH);
    const scale = nothing ? [] : [item(...rampEnds(data, choice, bar))];
    const beyond = codes.includes(OUT_OF_REACH) ? [item(swatch(theme.faint), "out of reach")] : [];
    return [...scale, ring, ...beyond];
  }
  if (choice.colour === "right") {
    return [[theme.right, "right"], [theme.wrong, "wrong"], [theme.faint, "not tested"]]
      .map(([colour, words]) => item(swatch(colour), words)).concat(ring);
  }
  const chips = data.classes.map((name, k) => {
    const chip = element("button", { type: "button", class: "item chip", "aria-pressed": String(choice.only === k) },
      swatch(theme.classes[k]), name);
    chip.addEventListener("click", () => {
      pick(k);
      document.querySelectorAll("#map-legend .chip")[k].focus();
    });
    return chip;
  });
  if (choice.colour === "truth" && data.truth.includes(-1)) {
    chips.push(item(swatch(theme.faint), "unknown"));
  }
  return [...chips, ring];
}

function rampEnds(data, { colour, time, k }, bar) {
  if (colour === "certainty") return ["undecided", bar, "certain"];
  const [near, far] = scaleInWords(data, time, k);
  return [near, bar, far];
}

function scaleInWords(data, time, k) {
  const [low, high, unit, farther] = data.scales[time][k];
  return [`near ${inWords(low)}`, `far ${inWords(high)}${farther ? " or more" : ""}${unit ? " (log scale)" : ""}`];
}

// -- tooltip

function tipContent(data, node, { time }) {
  const truth = data.truth[node], predicted = data.predicted[node], given = data.given[node];
  const classNamed = (k) => [swatchOfClass(k), data.classes[k]];
  const aside = (words) => element("span", { class: "aside" }, words);
  const rows = [["predicted", ...classNamed(predicted), aside(percentInWords(data.probability[node] / 255))]];
  // A second class that is far less probable would only distract.
  const second = data.second[node];
  if (second >= 0 && second !== predicted && data.margin[node] < 204) rows.push(["second", ...classNamed(second)]);
  if (truth >= 0) {
    const judged = element("b", { class: truth === predicted ? "ok" : "wrong" }, truth === predicted ? " ✓" : " ✗");
    rows.push(["truth", ...classNamed(truth), judged]);
  }
  if (given >= 0) rows.push(["label", ...classNamed(given), aside("given")]);
  const list = element("dl", {}, ...rows.flatMap(([term, ...told]) =>
    [element("dt", {}, term), element("dd", {}, ...told)]));
  return [element("strong", {}, `node ${nameOf(data, node)}`), list, ...distancesTold(data, node, time, classNamed)];
}

function swatchOfClass(k) {
  return swatch(k < STYLED_CLASSES ? `var(--class-${k})` : fromLCH(0.62, 0.13, 137.508 * k % 360));
}

// The nearest classes, with bars: how far each is, beside the farthest of those told.
function distancesTold(data, node, time, classNamed) {
  const codes = data.classes.map((_, k) => codesOf(data, time, k)[node]);
  const far = codes.map((code, k) => distanceOf(data, time, k, code));
  const told = far.map((_, k) => k).sort((a, b) => (far[a] < far[b] ? -1 : far[a] > far[b] ? 1 : a - b))
    .slice(0, DISTANCES_TOLD);
  const farthest = Math.max(...told.map((k) => (Number.isFinite(far[k]) ? far[k] : 0)), 1e-12);
  const rows = told.map((k) => {
    const bar = element("i", { class: "length" });
    bar.style.width = `${100 * Math.min(Math.max(far[k], 0) / farthest, 1)}%`;
    return element("tr", {}, element("th", {}, ...classNamed(k)), element("td", {}, bar),
      element("td", {}, distanceInWords(data, time, k, codes[k])));
  });
  const head = `distances at time ${inWords(data.times[time])}${told.length < far.length ? ", nearest first" : ""}`;
  return [element("small", {}, head), element("table", {}, ...rows)];
}

function placeTip(tip, canvas, x, y) {
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 16 + width < canvas.clientWidth ? x + 16 : x - 16 - width;
  tip.style.left = `${Math.min(Math.max(left, 4), Math.max(canvas.clientWidth - width - 4, 4))}px`;
  tip.style.top = `${Math.min(Math.max(y - height / 2, 4), Math.max(canvas.clientHeight - height - 4, 4))}px`;
}
