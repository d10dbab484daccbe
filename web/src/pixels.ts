// Values as pictures of one pixel each, which the painter then enlarges.

import { shade, type Palette } from "./colour";

const STEPS = 255; // of colour on each side of zero

const ramps = new Map<Palette, Uint32Array>();

/** The colours from -1 to 1 as words of a picture: alpha, blue, green, red. */
function rampOf(palette: Palette): Uint32Array {
  let found = ramps.get(palette);
  if (!found) {
    found = new Uint32Array(2 * STEPS + 1);
    for (let i = 0; i < found.length; i++) {
      const [r, g, b] = shade(palette, (i - STEPS) / STEPS);
      found[i] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    }
    ramps.set(palette, found);
  }
  return found;
}

/** The values as a picture of one pixel for each cell. */
export function pixels(
  palette: Palette,
  values: Float32Array,
  rows: number,
  columns: number,
  scale: number,
): HTMLCanvasElement {
  const found = document.createElement("canvas");
  found.width = columns;
  found.height = rows;
  const pen = found.getContext("2d")!;
  const data = pen.createImageData(columns, rows);
  const words = new Uint32Array(data.data.buffer);
  const ramp = rampOf(palette);
  for (let i = 0; i < values.length; i++) {
    const t = Math.max(-1, Math.min(1, values[i]! / scale));
    words[i] = ramp[Math.round((t + 1) * STEPS)]!;
  }
  pen.putImageData(data, 0, 0);
  return found;
}

/** The largest size outside the diagonal, which in many measures outweighs all else. */
export function mapScale(values: Float32Array, columns: number, square: boolean): number {
  let found = 1e-12;
  for (let i = 0; i < values.length; i++) {
    const diagonal = square && Math.floor(i / columns) === i % columns;
    if (!diagonal) found = Math.max(found, Math.abs(values[i]!));
  }
  return found;
}
