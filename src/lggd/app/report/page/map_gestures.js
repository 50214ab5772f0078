// Pointer, wheel and keys on a map.

const KEY_STEP = 60, KEY_ZOOM = 1.4;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEY = /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl";

export function listenToGestures(map, stage, surface) {
  listenToWheel(map, stage, surface);
  listenToPointers(map, surface);
  surface.addEventListener("keydown", (event) => {
    const action = actionOfKey(map, event);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

// The wheel scrolls the page, until somebody clicks into the map: they want to zoom until they leave it.
function listenToWheel(map, stage, surface) {
  const setActive = (active) => stage.classList.toggle("active", active);
  surface.addEventListener("pointerdown", () => setActive(true));
  surface.addEventListener("blur", () => setActive(false));
  stage.addEventListener("pointerleave", () => setActive(false));
  surface.addEventListener("wheel", (event) => {
    const hasKey = event.ctrlKey || event.metaKey, isOutermost = map.view.zoom === 1 && event.deltaY > 0;
    if (!hasKey && (!stage.classList.contains("active") || isOutermost)) {
      if (!isOutermost) map.hint(`To zoom, hold ${KEY} or click into the map first`);
      return;
    }
    event.preventDefault();
    map.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...pointOf(event, surface));
  }, { passive: false });
}

function pointOf(event, surface) {
  const box = surface.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function listenToPointers(map, surface) {
  const pointers = new Map();
  let hasMoved = false;

  surface.addEventListener("pointerdown", (event) => {
    const point = pointOf(event, surface);
    pointers.set(event.pointerId, point);
    hasMoved = false;
    surface.setPointerCapture(event.pointerId);
    if (map.options.lasso && (map.tool === "lasso" || event.shiftKey) && pointers.size === 1) map.lasso = [point];
  });
  surface.addEventListener("pointermove", (event) => {
    const point = pointOf(event, surface);
    if (!pointers.has(event.pointerId)) map.look(map.nodeAt(...point));
    else if (map.lasso) extendLasso(map, point);
    else if (pointers.size > 1) pinch(map, pointers, event.pointerId, point);
    else hasMoved = drag(map, pointers, event.pointerId, point) || hasMoved;
  });
  for (const kind of ["pointerup", "pointercancel"]) surface.addEventListener(kind, (event) => {
    pointers.delete(event.pointerId);
    surface.classList.remove("moving");
    if (!map.lasso) return;
    hasMoved = map.lasso.length > 2;
    if (hasMoved && kind === "pointerup") map.endLasso();
    map.lasso = null;
    map.paintSoon();
  });
  surface.addEventListener("click", (event) => {
    if (!hasMoved) map.pick(map.nodeAt(...pointOf(event, surface)));
  });
  surface.addEventListener("pointerleave", () => map.look(-1));
}

function extendLasso(map, point) {
  map.lasso.push(point);
  map.paintSurface();
}

// Returns whether the map moved; the whole graph in view cannot be moved.
function drag(map, pointers, id, [x, y]) {
  const [dx, dy] = [x - pointers.get(id)[0], y - pointers.get(id)[1]];
  if (map.view.zoom === 1 || Math.hypot(dx, dy) <= 1) return false;
  pointers.set(id, [x, y]);
  map.surface.classList.add("moving");
  map.moveBy(dx, dy);
  return true;
}

function pinch(map, pointers, id, point) {
  const [, other] = [...pointers].find(([key]) => key !== id);
  const apart = ([x, y]) => Math.max(Math.hypot(x - other[0], y - other[1]), 1);
  const factor = apart(point) / apart(pointers.get(id));
  pointers.set(id, point);
  map.zoomBy(factor, (point[0] + other[0]) / 2, (point[1] + other[1]) / 2);
}

function actionOfKey(map, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const arrow = ARROWS[event.key];
  if (arrow && event.shiftKey) return () => map.walk(...arrow);
  if (arrow) return map.view.zoom > 1 ? () => map.moveBy(-KEY_STEP * arrow[0], -KEY_STEP * arrow[1]) : null;
  if (event.key === "Enter") return map.pinned >= 0 ? () => map.pick(map.pinned) : null;
  if (event.key.toLowerCase() === "l" && map.options.lasso) {
    return () => map.setTool(map.tool === "lasso" ? "pan" : "lasso");
  }
  return {
    "+": () => map.zoomBy(KEY_ZOOM), "=": () => map.zoomBy(KEY_ZOOM), "-": () => map.zoomBy(1 / KEY_ZOOM),
    Home: () => map.fit(), Escape: () => map.letGo(),
  }[event.key] ?? null;
}
