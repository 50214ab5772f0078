// The data embedded in the page as typed arrays with one entry per drawn node.

const UNREACHABLE = 255, MAX_CODE = 254;

function unpack(base64, Kind) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new Kind(bytes.buffer);
}

function readData() {
  const raw = JSON.parse(document.getElementById("report-data").textContent);
  const kinds = {
    x: Uint16Array, y: Uint16Array, edges: Uint16Array, truth: Int16Array, label: Int16Array, predicted: Int16Array,
    second: Int16Array, tested: Uint8Array, probability: Uint8Array, margin: Uint8Array,
  };
  const data = { ...raw };
  for (const [name, Kind] of Object.entries(kinds)) data[name] = unpack(raw[name], Kind);
  data.numbers = raw.numbers && unpack(raw.numbers, Uint32Array);
  data.distances = raw.distances.map((one) => unpack(one, Uint8Array));
  data.labelled = [];
  for (let node = 0; node < data.count; node++) if (data.label[node] >= 0) data.labelled.push(node);
  return data;
}

// The codes of the distances to one class at one time.
function codesOf(data, time, k) {
  return data.distances[time].subarray(k * data.count, (k + 1) * data.count);
}

// A code as a distance. Wide ranges are encoded logarithmically, in units of a small distance.
function distanceOf(data, time, k, code) {
  if (code === UNREACHABLE) return Infinity;
  const [low, high, unit] = data.scales[time][k];
  const share = code / MAX_CODE;
  return low + (unit ? unit * Math.expm1(share * Math.log1p((high - low) / unit)) : share * (high - low));
}

// The same as text. Where the scale ends before the farthest nodes, only a lower bound is known.
function formatDistance(data, time, k, code) {
  const exceeds = code === MAX_CODE && data.scales[time][k][3];
  return (exceeds ? "over " : "") + formatNumber(distanceOf(data, time, k, code));
}

function nameOf(data, node) {
  if (data.names) return data.names[node];
  return String(data.numbers ? data.numbers[node] : node);
}

// The index of a node among the drawn ones, -1 if it is not drawn.
function drawnNode(data, number) {
  return data.numbers ? data.numbers.indexOf(number) : number;
}

function formatNumber(value) {
  if (!Number.isFinite(value)) return "unreachable";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2).replace("-", "−");
  return Number(value.toPrecision(3)).toLocaleString("en").replace("-", "−");
}

function formatPercent(share) {
  return `${Math.round(100 * share)}\u00a0%`;
}
