// The data of a map: typed arrays with one entry per drawn node, as packed by report/map_data.py.
//
// count, x, y            nodes and their positions, 0 to 10000, y downwards
// edges                  pairs of nodes [a0, b0, a1, b1, …], possibly a sample (edgesAreSampled) or none
// classes                the names of classes; arrays of classes hold their numbers, -1 where unknown
// names, numbers         ids of nodes; without names, numbers in the whole graph; without both, 0, 1, …
// predicted, second      the two most probable classes
// probability, margin    of `predicted` (0 to 65535), and before `second` (0 to 255)
// label, truth, tested   the label known to the model, the true class, and whether it was held out
// times, distances, scales   codes of distances to classes; empty for methods without distances
//
// Fields that a map does not know are left alone.

export const UNREACHABLE = 255, MAX_CODE = 254, MAX_PROBABILITY = 65535;

const KINDS = {
  x: Uint16Array, y: Uint16Array, truth: Int16Array, label: Int16Array, predicted: Int16Array, second: Int16Array,
  tested: Uint8Array, probability: Uint16Array, margin: Uint8Array, numbers: Uint32Array,
};

function unpack(base64, Kind) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new Kind(bytes.buffer);
}

// Defaults of arrays that may be missing, such as predictions before there is any label.
export function withDefaults(data) {
  const unknown = () => new Int16Array(data.count).fill(-1);
  return {
    edges: [], names: null, numbers: null, edgesAreSampled: false, times: [], distances: [], scales: [],
    predicted: unknown(), second: unknown(), label: unknown(), truth: unknown(), tested: new Uint8Array(data.count),
    probability: new Uint16Array(data.count), margin: new Uint8Array(data.count), ...data,
  };
}

// Unpacks all fields that are there: those of a whole map, or of a change to one.
export function unpackMap(raw, count = raw.count) {
  const data = { ...raw };
  for (const [name, Kind] of Object.entries(KINDS)) if (raw[name]) data[name] = unpack(raw[name], Kind);
  if (raw.edges !== undefined) data.edges = unpack(raw.edges, count > 65536 ? Uint32Array : Uint16Array);
  if (raw.distances) data.distances = raw.distances.map((one) => unpack(one, Uint8Array));
  return data;
}

export function labelledNodes(data) {
  const nodes = [];
  for (let node = 0; node < data.count; node++) if (data.label[node] >= 0) nodes.push(node);
  return nodes;
}

// The codes of the distances to one class at one time.
export function codesOf(data, time, k) {
  return data.distances[time].subarray(k * data.count, (k + 1) * data.count);
}

// A code as a distance. Wide ranges are encoded logarithmically, in units of a small distance.
export function distanceOf(data, time, k, code) {
  if (code === UNREACHABLE) return Infinity;
  const [low, high, unit] = data.scales[time][k];
  const share = code / MAX_CODE;
  return low + (unit ? unit * Math.expm1(share * Math.log1p((high - low) / unit)) : share * (high - low));
}

export function nameOf(data, node) {
  if (data.names) return data.names[node];
  return String(data.numbers ? data.numbers[node] : node);
}

// The index of a node among the drawn ones, -1 if it is not drawn.
export function drawnNode(data, number) {
  return data.numbers ? data.numbers.indexOf(number) : number;
}

// Drawn nodes by name: the one with exactly this name, then names that start with the text, then those that contain it.
export function findNodes(data, text, most = 8) {
  const wanted = text.trim().toLowerCase(), ranks = [[], [], []];
  if (!wanted) return [];
  for (let node = 0; node < data.count; node++) {
    const name = nameOf(data, node).toLowerCase(), place = name.indexOf(wanted);
    if (place >= 0) ranks[name === wanted ? 0 : place === 0 ? 1 : 2].push(node);
  }
  return ranks.flat().slice(0, most);
}
