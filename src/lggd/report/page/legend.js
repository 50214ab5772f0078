// Texts of the large map: its legend, the tooltip of a node, and a description for screen readers.

const MAX_DISTANCES = 6;

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

function describeMap(data, { colour, time, k }) {
  const what = {
    distance: `distance to class ${data.classes[k]} at time ${formatNumber(data.times[time])}`,
    predicted: "predicted class", truth: "true class", correct: "correctness", certainty: "certainty",
  }[colour];
  const range = colour === "distance" ? `, ${formatScale(data, time, k).join(", ")}` : "";
  return `Map of ${data.count} nodes coloured by ${what}${range}; rings mark ${data.labelled.length} labelled nodes.`;
}

function legendContent(data, theme, choice, pick) {
  const item = (...content) => element("span", { class: "item" }, ...content);
  const ring = item(swatch(theme.ink, "ring"), "labelled");
  if (choice.colour === "distance" || choice.colour === "certainty") {
    const bar = element("i", { class: "gradient" });
    bar.style.background = `linear-gradient(to right, ${theme.ramp.filter((_, k) => k % 7 === 0).join(",")})`;
    const codes = choice.colour === "distance" ? codesOf(data, choice.time, choice.k) : [];
    const isEmpty = codes.length > 0 && codes.every((code) => code === UNREACHABLE);
    const scale = isEmpty ? [] : [item(...rampEnds(data, choice, bar))];
    const beyond = codes.includes(UNREACHABLE) ? [item(swatch(theme.faint), "unreachable")] : [];
    return [...scale, ring, ...beyond];
  }
  if (choice.colour === "correct") {
    return [[theme.correct, "correct"], [theme.wrong, "incorrect"], [theme.faint, "not a test node"]]
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
  if (colour === "certainty") return ["uncertain", bar, "certain"];
  const [near, far] = formatScale(data, time, k);
  return [near, bar, far];
}

function formatScale(data, time, k) {
  const [low, high, unit, exceeds] = data.scales[time][k];
  return [`near ${formatNumber(low)}`, `far ${formatNumber(high)}${exceeds ? " or more" : ""}${unit ? " (log scale)" : ""}`];
}

// -- tooltip

function tipContent(data, node, { time }) {
  const truth = data.truth[node], predicted = data.predicted[node], label = data.label[node];
  const classNamed = (k) => [swatchOfClass(k), data.classes[k]];
  const aside = (words) => element("span", { class: "aside" }, words);
  const rows = [["predicted", ...classNamed(predicted), aside(formatPercent(data.probability[node] / 255))]];
  // A second class that is far less probable would distract.
  const second = data.second[node];
  if (second >= 0 && second !== predicted && data.margin[node] < 204) rows.push(["second", ...classNamed(second)]);
  if (truth >= 0) {
    const mark = element("b", { class: truth === predicted ? "ok" : "wrong" }, truth === predicted ? " ✓" : " ✗");
    rows.push(["true class", ...classNamed(truth), mark]);
  }
  if (label >= 0) rows.push(["label", ...classNamed(label)]);
  const list = element("dl", {}, ...rows.flatMap(([term, ...content]) =>
    [element("dt", {}, term), element("dd", {}, ...content)]));
  return [element("strong", {}, `node ${nameOf(data, node)}`), list, ...distanceRows(data, node, time, classNamed)];
}

function swatchOfClass(k) {
  return swatch(k < STYLED_CLASSES ? `var(--class-${k})` : fromLCH(0.62, 0.13, 137.508 * k % 360));
}

// The nearest classes, with bars relative to the farthest of them.
function distanceRows(data, node, time, classNamed) {
  const codes = data.classes.map((_, k) => codesOf(data, time, k)[node]);
  const far = codes.map((code, k) => distanceOf(data, time, k, code));
  const nearest = far.map((_, k) => k).sort((a, b) => (far[a] < far[b] ? -1 : far[a] > far[b] ? 1 : a - b))
    .slice(0, MAX_DISTANCES);
  const farthest = Math.max(...nearest.map((k) => (Number.isFinite(far[k]) ? far[k] : 0)), 1e-12);
  const rows = nearest.map((k) => {
    const bar = element("i", { class: "length" });
    bar.style.width = `${100 * Math.min(Math.max(far[k], 0) / farthest, 1)}%`;
    return element("tr", {}, element("th", {}, ...classNamed(k)), element("td", {}, bar),
      element("td", {}, formatDistance(data, time, k, codes[k])));
  });
  const head = `distances at time ${formatNumber(data.times[time])}${nearest.length < far.length ? ", nearest first" : ""}`;
  return [element("small", {}, head), element("table", {}, ...rows)];
}

function placeTip(tip, canvas, x, y) {
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 16 + width < canvas.clientWidth ? x + 16 : x - 16 - width;
  tip.style.left = `${Math.min(Math.max(left, 4), Math.max(canvas.clientWidth - width - 4, 4))}px`;
  tip.style.top = `${Math.min(Math.max(y - height / 2, 4), Math.max(canvas.clientHeight - height - 4, 4))}px`;
}
