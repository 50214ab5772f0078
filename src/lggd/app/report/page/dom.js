// Elements, numbers as text, and files to save.

export function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function button(attributes, text, action) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", action);
  return made;
}

export function swatch(colour, kind = "swatch") {
  const made = element("i", { class: kind });
  made.style.setProperty("--colour", colour);
  return made;
}

export function formatNumber(value) {
  if (!Number.isFinite(value)) return "unreachable";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2).replace("-", "−");
  return Number(value.toPrecision(3)).toLocaleString("en").replace("-", "−");
}

export function formatPercent(share) {
  return `${Math.round(100 * share)}\u00a0%`;
}

export function formatCount(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// Long names must not break the layout.
export function shorten(name, most = 80) {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

// Places a tooltip beside a point of its stage: to the right, to the left, or on a narrow stage below or above it.
export function placeTip(tip, stage, x, y) {
  const { offsetWidth: width, offsetHeight: height } = tip, { clientWidth, clientHeight } = stage;
  const inside = (at, size, all) => `${Math.min(Math.max(at, 4), Math.max(all - size - 4, 4))}px`;
  const right = x + 16 + width < clientWidth, left = x - 16 - width > 0;
  const below = y + 16 + height < clientHeight ? y + 16 : y - 16 - height;
  tip.style.left = inside(right ? x + 16 : left ? x - 16 - width : x - width / 2, width, clientWidth);
  tip.style.top = inside(right || left ? y - height / 2 : below, height, clientHeight);
}

// Rows of cells as CSV (RFC 4180).
export function toCSV(rows) {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));
  return rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
}

// Saves a table from the page itself, without a server.
export function saveFile(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
