// Where nodes are on the screen: zoom and position of a map, in CSS pixels; and which nodes are where.

const MARGIN = 0.04, MAX_ZOOM = 60;

export class MapView {
  constructor({ count, x, y }) {
    Object.assign(this, { count, nodeX: x, nodeY: y, zoom: 1, shiftX: 0, shiftY: 0 });
    const [left, right] = range(x), [top, bottom] = range(y);
    this.bounds = { width: Math.max(right - left, 1), height: Math.max(bottom - top, 1) };
    this.middle = [(left + right) / 2, (top + bottom) / 2];
    this.resize(1, 1);
  }

  resize(width, height) {
    Object.assign(this, { width, height });
    this.clamp();
  }

  x(node) { return this.left + this.scale * this.nodeX[node]; }
  y(node) { return this.top + this.scale * this.nodeY[node]; }

  // The radius of a node: smaller where there are more, and larger when zoomed in.
  get radius() {
    const spread = Math.min(this.width, this.height) / Math.sqrt(Math.max(this.count, 1));
    return Math.min(Math.max(0.24 * spread, this.count > 50_000 ? 0.6 : 1), 4.5) * this.zoom ** 0.35;
  }

  fit() {
    Object.assign(this, { zoom: 1, shiftX: 0, shiftY: 0 });
    this.clamp();
  }

  // The point under (x, y) stays there.
  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), MAX_ZOOM), grown = zoom / this.zoom;
    this.shiftX = (x - this.width / 2) * (1 - grown) + this.shiftX * grown;
    this.shiftY = (y - this.height / 2) * (1 - grown) + this.shiftY * grown;
    this.zoom = zoom;
    this.clamp();
  }

  moveBy(dx, dy) {
    this.shiftX += dx;
    this.shiftY += dy;
    this.clamp();
  }

  centreOn(node) {
    this.zoom = Math.max(this.zoom, 3);
    this.place();
    this.moveBy(this.width / 2 - this.x(node), this.height / 2 - this.y(node));
  }

  // The graph can be moved until its edge is a quarter inside the map.
  clamp() {
    const farthest = (size) => size / 2 * (this.zoom - 1) + size * 0.25 * (this.zoom > 1);
    const limited = (shift, size) => Math.min(Math.max(shift, -farthest(size)), farthest(size));
    this.shiftX = limited(this.shiftX, this.width);
    this.shiftY = limited(this.shiftY, this.height);
    this.place();
  }

  // At zoom 1 the whole graph fits, centred.
  place() {
    const inner = 1 - 2 * MARGIN;
    const fitted = Math.min(inner * this.width / this.bounds.width, inner * this.height / this.bounds.height);
    this.scale = this.zoom * Math.min(fitted, 0.1);
    this.left = this.width / 2 - this.scale * this.middle[0] + this.shiftX;
    this.top = this.height / 2 - this.scale * this.middle[1] + this.shiftY;
  }

  // The node closest to a point, -1 if all are farther than `reach`.
  nearest(x, y, reach) {
    let best = -1, least = reach ** 2;
    for (let node = 0; node < this.count; node++) {
      const square = (this.x(node) - x) ** 2 + (this.y(node) - y) ** 2;
      if (square < least) { least = square; best = node; }
    }
    return best;
  }

  // The closest node in a direction, at most 45° aside; -1 if there is none.
  neighbourTowards(from, dx, dy) {
    let best = -1, least = Infinity;
    for (let node = 0; node < this.count; node++) {
      const x = this.x(node) - this.x(from), y = this.y(node) - this.y(from);
      const along = x * dx + y * dy, aside = Math.abs(x * dy - y * dx);
      if (along > 0 && aside <= along && along + aside < least) { least = along + aside; best = node; }
    }
    return best;
  }

  // The nodes inside a polygon [[x, y], …]; of one that crosses itself, those within an odd number of its turns.
  inside(polygon) {
    const path = new Path2D(`M${polygon.join("L")}Z`), context = new OffscreenCanvas(1, 1).getContext("2d"), nodes = [];
    for (let node = 0; node < this.count; node++) {
      if (context.isPointInPath(path, this.x(node), this.y(node), "evenodd")) nodes.push(node);
    }
    return nodes;
  }
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  return [low, high];
}
