// Two ramps that people with any colour vision can tell apart: blue for what adds, orange for what
// takes away. More is darker on light paper, brighter on dark paper.

type Rgb = readonly [number, number, number];

export interface Palette {
  dark: boolean;
  paper: string;
  ink: string;
  quiet: string;
  line: string;
  band: string;
  plus: readonly Rgb[];
  minus: readonly Rgb[];
}

const rgb = (hex: string): Rgb => [
  Number.parseInt(hex.slice(1, 3), 16),
  Number.parseInt(hex.slice(3, 5), 16),
  Number.parseInt(hex.slice(5, 7), 16),
];

export const LIGHT: Palette = {
  dark: false,
  paper: "#ffffff",
  ink: "#16191d",
  quiet: "#59626d",
  line: "#dfe3e8",
  band: "#f4f6f8",
  plus: ["#f6f8fb", "#cfe1f4", "#9cc4ea", "#5f9fdb", "#2a74bd", "#0b4586"].map(rgb),
  minus: ["#fbf8f5", "#fbdfc8", "#f5b988", "#e58b43", "#bf5f14", "#803604"].map(rgb),
};

export const DARK: Palette = {
  dark: true,
  paper: "#101316",
  ink: "#e8ebef",
  quiet: "#a0a9b4",
  line: "#2c333b",
  band: "#191e23",
  plus: ["#181c21", "#14324f", "#1a517f", "#2f7ab8", "#62a9e0", "#b4daf8"].map(rgb),
  minus: ["#1e1b18", "#452811", "#754015", "#ad611f", "#e08a40", "#fcc797"].map(rgb),
};

/** For paper: every shade is light enough for black text, which stays readable if a printer leaves
 * out the shades. */
export const PRINT: Palette = {
  ...LIGHT,
  plus: ["#f8fafc", "#e2edf8", "#c9def3", "#aecdee", "#8cb9e6", "#659fda"].map(rgb),
  minus: ["#fdfaf7", "#fcead9", "#f9d6b8", "#f3be92", "#eba468", "#dd8a44"].map(rgb),
};

function mixed(stops: readonly Rgb[], t: number): Rgb {
  const at = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const part = at - low;
  const [a, b] = [stops[low]!, stops[low + 1]!];
  return [0, 1, 2].map((i) => Math.round(a[i]! + (b[i]! - a[i]!) * part)) as unknown as Rgb;
}

/** The colour of a value between -1 and 1. */
export function shade(palette: Palette, t: number): Rgb {
  return mixed(t < 0 ? palette.minus : palette.plus, Math.abs(t));
}

export const css = ([r, g, b]: Rgb): string => `rgb(${r}, ${g}, ${b})`;

/** Relative luminance, by which text on a colour is black or white. */
function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((c) => {
    const s = c / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

export function inkOn(colour: Rgb): string {
  return luminance(colour) > 0.179 ? "#000000" : "#ffffff";
}
