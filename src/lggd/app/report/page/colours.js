// Colours. The style sheet has those of the classes, for light and dark; ramps and further classes are made here, in
// OKLCH (lightness, chroma, hue in degrees), where equal steps look equally large.

const STYLED_CLASSES = 12;
export const RAMP_STEPS = 64;

// From 0, strong, to 1, quiet: violet, blue, green and yellow with increasing lightness; the reverse on a dark page.
function rampColour(share, dark) {
  const light = dark ? 1 - share : share;
  const hue = 300 - 195 * light ** 0.9;
  const chroma = 0.135 + 0.025 * Math.cos(2 * Math.PI * light);
  return `oklch(${(dark ? 0.34 : 0.3) + (dark ? 0.58 : 0.6) * light} ${chroma} ${hue})`;
}

// The colour of a class as CSS; it follows the theme by itself.
export function classColour(k) {
  return k < STYLED_CLASSES ? `var(--class-${k})` : `oklch(62% 0.13 ${137.508 * k % 360})`;
}

// The colours of a map in the current theme.
export function readTheme(classes) {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const dark = read("--dark") === "1";
  return {
    dark,
    ink: read("--ink"), background: read("--card"), faint: read("--faint"), edge: read("--edge"), accent: read("--accent"),
    correct: read("--correct"), wrong: read("--wrong"),
    ramp: Array.from({ length: RAMP_STEPS }, (_, k) => rampColour(k / (RAMP_STEPS - 1), dark)),
    classes: Array.from({ length: classes }, (_, k) => (k < STYLED_CLASSES ? read(`--class-${k}`) : classColour(k))),
  };
}

const known = new Map();
let probe = null;

// Any CSS colour as [red, green, blue], 0 to 255.
export function toRGB(colour) {
  if (!known.has(colour)) {
    probe ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    known.set(colour, [...probe.getImageData(0, 0, 1, 1).data.subarray(0, 3)]);
  }
  return known.get(colour);
}

// The bytes red, green, blue and 255 as one number.
export function packedColour(colour) {
  const [red, green, blue] = toRGB(colour);
  return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}
