// Colours. The style sheet has those of the classes, for light and dark; ramps and further classes are computed here.

export const STYLED_CLASSES = 12;
export const RAMP_STEPS = 64;

// OKLCH (lightness 0..1, chroma, hue in degrees) to "rgb(r g b)": equal steps there look equally large.
export function fromLCH(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
  ];
  const encoded = linear.map((c) => {
    const clipped = Math.min(Math.max(c, 0), 1);
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
  });
  return `rgb(${encoded.join(" ")})`;
}

// From 0, strong, to 1, quiet: violet, blue, green and yellow with increasing lightness; the reverse on a dark page.
function rampColour(share, dark) {
  const light = dark ? 1 - share : share;
  const hue = 300 - 195 * light ** 0.9;
  const chroma = 0.135 + 0.025 * Math.cos(2 * Math.PI * light);
  return fromLCH((dark ? 0.34 : 0.3) + (dark ? 0.58 : 0.6) * light, chroma, hue);
}

// The colour of a class as CSS; it follows the theme by itself.
export function classColour(k) {
  return k < STYLED_CLASSES ? `var(--class-${k})` : fromLCH(0.62, 0.13, 137.508 * k % 360);
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
