// The large map: its controls, navigation, and the node under the pointer.

const MAX_ZOOM = 60, POINTER_RADIUS = 14;
// A wheel that scrolls the page must not start to zoom when a map comes under the pointer.
const REST_AFTER_SCROLL = 350;

function startMap(data) {
  const canvas = document.getElementById("map"), tip = document.getElementById("tip");
  const field = (name) => document.getElementById(`map-${name}`);
  const choice = { colour: "distance", time: data.times.length - 1, k: 0, only: -2 };
  const view = { zoom: 1, x: 0, y: 0 };
  const still = document.createElement("canvas");
  let theme = readTheme(data.classes.length), frame = null, radius = 1, hovered = -1, pinned = -1, waiting = false;

  // -- drawing

  function redraw() {
    const { context, width, height } = prepared(canvas);
    if (!width || !height) return;
    frame = frameOf(data, width, height, view);
    radius = radiusOf(data, width, height, view.zoom);
    context.clearRect(0, 0, width, height);
    if (field("edges").checked) drawEdges(context, data, frame, theme);
    drawNodes(context, data, frame, radius, colouring(data, theme, choice), theme, choice.only);
    drawLabels(context, data, frame, radius, theme, choice.colour === "distance" ? choice.k : -1);
    still.width = canvas.width;
    still.height = canvas.height;
    still.getContext("2d", IN_MEMORY).drawImage(canvas, 0, 0);
    highlight();
  }

  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; redraw(); });
  }

  // Draws the selected node and its edges over the saved picture.
  function highlight() {
    const node = hovered >= 0 ? hovered : pinned;
    const { context } = prepared(canvas);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(still, 0, 0);
    context.restore();
    if (node < 0) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.2;
    context.beginPath();
    for (let e = 0; e < data.edges.length; e += 2) {
      const a = data.edges[e], b = data.edges[e + 1];
      if (a !== node && b !== node) continue;
      context.moveTo(frame.x + frame.scale * data.x[a], frame.y + frame.scale * data.y[a]);
      context.lineTo(frame.x + frame.scale * data.x[b], frame.y + frame.scale * data.y[b]);
    }
    context.stroke();
    drawRings(context, data, frame, [node], radius + 4, theme.accent, theme.background, 2.5);
  }

  // -- the node under the pointer

  function nearest(x, y) {
    let best = -1, least = POINTER_RADIUS ** 2;
    for (let node = 0; node < data.count; node++) {
      const dx = frame.x + frame.scale * data.x[node] - x, dy = frame.y + frame.scale * data.y[node] - y;
      if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = node; }
    }
    return best;
  }

  function look(node) {
    hovered = node;
    highlight();
    const shown = node >= 0 ? node : pinned;
    tip.hidden = shown < 0;
    if (shown < 0) return;
    tip.replaceChildren(...tipContent(data, shown, choice));
    placeTip(tip, canvas, frame.x + frame.scale * data.x[shown], frame.y + frame.scale * data.y[shown]);
  }

  // -- navigation

  function zoomBy(factor, x = frame.width / 2, y = frame.height / 2) {
    const zoom = Math.min(Math.max(view.zoom * factor, 1), MAX_ZOOM), grown = zoom / view.zoom;
    // The point under (x, y) stays there.
    view.x = (x - frame.width / 2) * (1 - grown) + view.x * grown;
    view.y = (y - frame.height / 2) * (1 - grown) + view.y * grown;
    view.zoom = zoom;
    clampView();
  }

  function moveBy(dx, dy) {
    view.x += dx;
    view.y += dy;
    clampView();
  }

  function clampView() {
    const farthest = (size) => size / 2 * (view.zoom - 1) + size * 0.25 * (view.zoom > 1);
    view.x = Math.min(Math.max(view.x, -farthest(frame.width)), farthest(frame.width));
    view.y = Math.min(Math.max(view.y, -farthest(frame.height)), farthest(frame.height));
    // A finger scrolls the page unless the map is zoomed.
    canvas.style.touchAction = view.zoom > 1 ? "none" : "pan-y";
    tip.hidden = true;
    hovered = -1;
    later();
  }

  function show(node) {
    Object.assign(view, { zoom: Math.max(view.zoom, 3), x: 0, y: 0 });
    const target = frameOf(data, frame.width, frame.height, view);
    view.x = frame.width / 2 - target.x - target.scale * data.x[node];
    view.y = frame.height / 2 - target.y - target.scale * data.y[node];
    pinned = node;
    hovered = -1;
    redraw();
    look(-1);
    canvas.scrollIntoView({ block: "center" });
    canvas.focus({ preventScroll: true });
  }

  let dragged = null, hasMoved = false, lastScroll = -Infinity;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  addEventListener("scroll", () => { lastScroll = performance.now(); }, { passive: true });
  canvas.addEventListener("wheel", (event) => {
    const outermost = view.zoom === 1 && event.deltaY > 0;
    if (outermost || performance.now() - lastScroll < REST_AFTER_SCROLL) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    dragged = [event.clientX, event.clientY];
    hasMoved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      const [dx, dy] = [event.clientX - dragged[0], event.clientY - dragged[1]];
      if (view.zoom > 1 && Math.hypot(dx, dy) > 1) {
        dragged = [event.clientX, event.clientY];
        hasMoved = true;
        canvas.classList.add("moving");
        moveBy(dx, dy);
      }
    } else if (frame) {
      look(nearest(...at(event)));
    }
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => {
    dragged = null;
    canvas.classList.remove("moving");
  });
  canvas.addEventListener("click", (event) => {
    if (hasMoved) return;
    pinned = nearest(...at(event));
    look(pinned);
  });
  canvas.addEventListener("pointerleave", () => look(-1));
  canvas.addEventListener("keydown", (event) => {
    const step = 60;
    const action = {
      "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), "0": fit,
      ArrowLeft: () => moveBy(step, 0), ArrowRight: () => moveBy(-step, 0),
      ArrowUp: () => moveBy(0, step), ArrowDown: () => moveBy(0, -step),
      Escape: () => { pinned = -1; look(-1); },
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow") && view.zoom === 1) return;
    event.preventDefault();
    action();
  });

  function fit() {
    Object.assign(view, { zoom: 1, x: 0, y: 0 });
    clampView();
  }

  // -- controls

  function update() {
    const ofDistance = choice.colour === "distance";
    for (const name of ["class", "time"]) field(name).disabled = !ofDistance;
    for (const control of document.querySelectorAll(".of-distance")) control.classList.toggle("off", !ofDistance);
    const time = formatNumber(data.times[choice.time]);
    field("time-value").textContent = time;
    field("time").setAttribute("aria-valuetext", time);
    for (const button of document.querySelectorAll(".small-map")) {
      const chosen = ofDistance && choice.time === data.times.length - 1 && Number(button.dataset.class) === choice.k;
      button.setAttribute("aria-pressed", String(chosen));
    }
    canvas.setAttribute("aria-label", describeMap(data, choice));
    field("legend").replaceChildren(...legendContent(data, theme, choice, (only) => {
      choice.only = choice.only === only ? -2 : only;
      update();
    }));
    later();
    if (!tip.hidden) look(hovered);
  }

  function choose(changes) {
    Object.assign(choice, { only: -2 }, changes);
    field("colour").value = choice.colour;
    field("class").value = String(choice.k);
    field("time").value = String(choice.time);
    update();
  }

  field("colour").addEventListener("change", (event) => choose({ colour: event.target.value }));
  field("class").addEventListener("change", (event) => choose({ k: Number(event.target.value) }));
  field("time").addEventListener("input", (event) => choose({ time: Number(event.target.value) }));
  field("edges").addEventListener("change", later);
  field("in").addEventListener("click", () => zoomBy(1.6));
  field("out").addEventListener("click", () => zoomBy(1 / 1.6));
  field("fit").addEventListener("click", fit);
  new ResizeObserver(later).observe(canvas);
  // A browser may restore the controls after a reload.
  redraw();
  choose({ colour: field("colour").value, k: Number(field("class").value), time: Number(field("time").value) });
  return {
    show, choose,
    refresh() { theme = readTheme(data.classes.length); update(); redraw(); },
  };
}
