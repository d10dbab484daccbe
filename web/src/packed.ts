// Packed shares: float16 in base64, whole or only the largest entries of each row and column.

import type { WrittenArray, WrittenShares } from "./payload";

export type Visit = (index: number, value: number) => void;

/** Maps that can be read by row (a target's sources) and by column (a source's targets). */
export interface Shares {
  readonly layers: number;
  readonly targets: number;
  readonly sources: number;
  readonly complete: boolean;
  eachOfRow(layer: number, target: number, visit: Visit): void;
  eachOfColumn(layer: number, source: number, visit: Visit): void;
}

function bytes(text: string): Uint8Array {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

/** The value of every float16, by its 16 bits. */
const HALVES = (() => {
  const found = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) found[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) found[bits] = fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
    else found[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return found;
})();

/** The numbers of a written array. Float16 becomes float32, integers stay what they are. */
export function numbers(written: WrittenArray): Float32Array | Uint16Array | Uint32Array {
  const raw = bytes(written.data).buffer as ArrayBuffer;
  switch (written.dtype) {
    case "float16": {
      const halves = new Uint16Array(raw);
      const found = new Float32Array(halves.length);
      for (let i = 0; i < halves.length; i++) found[i] = HALVES[halves[i]!]!;
      return found;
    }
    case "float32":
      return new Float32Array(raw);
    case "uint16":
      return new Uint16Array(raw);
    case "uint32":
      return new Uint32Array(raw);
    default:
      throw new Error(`This viewer cannot read arrays of type ${written.dtype}. Update mixlens.`);
  }
}

export function unpacked(written: WrittenShares): Shares {
  return written.kind === "dense" ? new Dense(written.shares) : new Largest(written);
}

class Dense implements Shares {
  readonly layers: number;
  readonly targets: number;
  readonly sources: number;
  readonly complete = true;
  private readonly values: Float32Array;

  /** Of an array [..., target, source]; the axes before count as layers. */
  constructor(written: WrittenArray) {
    const shape = written.shape;
    this.sources = shape[shape.length - 1]!;
    this.targets = shape[shape.length - 2]!;
    this.layers = shape.slice(0, -2).reduce((a, b) => a * b, 1);
    this.values = numbers(written) as Float32Array;
  }

  eachOfRow(layer: number, target: number, visit: Visit): void {
    const start = (layer * this.targets + target) * this.sources;
    for (let i = 0; i < this.sources; i++) {
      const value = this.values[start + i]!;
      if (value !== 0) visit(i, value);
    }
  }

  eachOfColumn(layer: number, source: number, visit: Visit): void {
    const start = layer * this.targets * this.sources + source;
    for (let i = 0; i < this.targets; i++) {
      const value = this.values[start + i * this.sources]!;
      if (value !== 0) visit(i, value);
    }
  }
}

interface Columns {
  starts: Uint32Array;
  rows: Uint32Array;
  values: Float32Array;
}

class Largest implements Shares {
  readonly layers: number;
  readonly targets: number;
  readonly sources: number;
  readonly complete = false;
  private readonly starts: Uint32Array;
  private readonly indices: Uint16Array | Uint32Array;
  private readonly values: Float32Array;
  private readonly columns = new Map<number, Columns>();

  constructor(written: Extract<WrittenShares, { kind: "largest" }>) {
    [this.layers, this.targets, this.sources] = written.shape;
    this.starts = numbers(written.starts) as Uint32Array;
    this.indices = numbers(written.indices) as Uint16Array | Uint32Array;
    this.values = numbers(written.values) as Float32Array;
  }

  eachOfRow(layer: number, target: number, visit: Visit): void {
    const row = layer * this.targets + target;
    for (let i = this.starts[row]!; i < this.starts[row + 1]!; i++)
      visit(this.indices[i]!, this.values[i]!);
  }

  eachOfColumn(layer: number, source: number, visit: Visit): void {
    const { starts, rows, values } = this.columnsOf(layer);
    for (let i = starts[source]!; i < starts[source + 1]!; i++) visit(rows[i]!, values[i]!);
  }

  /** The entries of a layer by column, made when the first column is asked for. */
  private columnsOf(layer: number): Columns {
    const known = this.columns.get(layer);
    if (known) return known;
    const starts = new Uint32Array(this.sources + 1);
    for (let row = 0; row < this.targets; row++)
      this.eachOfRow(layer, row, (column) => starts[column + 1]!++);
    for (let i = 0; i < this.sources; i++) starts[i + 1]! += starts[i]!;
    const next = starts.slice();
    const rows = new Uint32Array(starts[this.sources]!);
    const values = new Float32Array(rows.length);
    for (let row = 0; row < this.targets; row++)
      this.eachOfRow(layer, row, (column, value) => {
        const at = next[column]!++;
        rows[at] = row;
        values[at] = value;
      });
    const found = { starts, rows, values };
    this.columns.set(layer, found);
    return found;
  }
}
