// The numbers inside the page, unpacked: typed arrays with one entry a drawn node.

const OUT_OF_REACH = 255, LARGEST_CODE = 254;

function unpack(base64, Kind) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new Kind(bytes.buffer);
}

function readData() {
  const raw = JSON.parse(document.getElementById("report-data").textContent);
  const kinds = {
    x: Uint16Array, y: Uint16Array, edges: Uint16Array, truth: Int16Array, given: Int16Array, predicted: Int16Array,
    second: Int16Array, tested: Uint8Array, probability: Uint8Array, margin: Uint8Array,
  };
  const data = { ...raw };
  for (const [name, Kind] of Object.entries(kinds)) data[name] = unpack(raw[name], Kind);
  data.numbers = raw.numbers && unpack(raw.numbers, Uint32Array);
  data.distances = raw.distances.map((one) => unpack(one, Uint8Array));
  data.labels = [];
  for (let node = 0; node < data.count; node++) if (data.given[node] >= 0) data.labels.push(node);
  return data;
}

// The codes of the distances to one class at one time.
function codesOf(data, time, k) {
  return data.distances[time].subarray(k * data.count, (k + 1) * data.count);
}

// A code as a distance. Wide ranges were packed by their logarithm, in units of a small distance.
function distanceOf(data, time, k, code) {
  if (code === OUT_OF_REACH) return Infinity;
  const [low, high, unit] = data.scales[time][k];
  const share = code / LARGEST_CODE;
  return low + (unit ? unit * Math.expm1(share * Math.log1p((high - low) / unit)) : share * (high - low));
}

// The same in words; where the scale ends before the farthest nodes, all that is known of them is that they are beyond.
function distanceInWords(data, time, k, code) {
  const farther = code === LARGEST_CODE && data.scales[time][k][3];
  return (farther ? "over " : "") + inWords(distanceOf(data, time, k, code));
}

function nameOf(data, node) {
  if (data.names) return data.names[node];
  return String(data.numbers ? data.numbers[node] : node);
}

// The place among the drawn nodes of a node of the graph, -1 if it is not drawn.
function drawnNode(data, number) {
  return data.numbers ? data.numbers.indexOf(number) : number;
}

function inWords(value) {
  if (!Number.isFinite(value)) return "out of reach";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2).replace("-", "−");
  return Number(value.toPrecision(3)).toLocaleString("en").replace("-", "−");
}

function percentInWords(share) {
  return `${Math.round(100 * share)}\u00a0%`;
}
