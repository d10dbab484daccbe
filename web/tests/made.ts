// Small payloads made by hand, with the numbers that they hold.

import type { Entry, Payload, Text, WrittenArray, WrittenShares } from "../src/payload";

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

export function written(values: number[], shape: number[], dtype: string): WrittenArray {
  const kinds: Record<string, (v: number[]) => { buffer: ArrayBufferLike }> = {
    float32: (v) => new Float32Array(v),
    float16: (v) => new Uint16Array(v.map(half)),
    uint16: (v) => new Uint16Array(v),
    uint32: (v) => new Uint32Array(v),
  };
  return { dtype, shape, data: base64(new Uint8Array(kinds[dtype]!(values).buffer)) };
}

/** The bits of the float16 next to a number that is zero or of ordinary size. */
function half(value: number): number {
  if (value === 0) return 0;
  const exponent = Math.floor(Math.log2(Math.abs(value)));
  const fraction = Math.round((Math.abs(value) / 2 ** exponent - 1) * 1024);
  return (value < 0 ? 0x8000 : 0) + ((exponent + 15) << 10) + fraction;
}

export function textOf(...labels: string[]): Text {
  const zeros = labels.map(() => 0);
  const gaps = labels.map((_, i) => (i ? " " : ""));
  return { labels, shown: labels, gaps, special: zeros, words: null, segments: null };
}

const sizes = (row: number[]) => row.reduce((sum, v) => sum + Math.abs(v), 0);

export function dense(maps: number[][][]): WrittenShares {
  const shares = maps.flat().flatMap((row) => row.map((v) => v / (sizes(row) || 1)));
  const shape = [maps.length, maps[0]!.length, maps[0]![0]!.length];
  return { kind: "dense", shares: written(shares, shape, "float16") };
}

export function payloadOf(text: Text, maps: number[][][], more: Partial<Entry> = {}): Payload {
  const entry: Entry = {
    measure: "made",
    summary: "",
    citation: "",
    provenance: {},
    targets: 0,
    sources: 0,
    target_positions: null,
    layers: maps.map((_, i) => i),
    signed: false,
    reaches_input: false,
    scores: dense(maps),
    totals: written(maps.flat().map(sizes), [maps.length, maps[0]!.length], "float32"),
    joined: null,
    ...more,
  };
  return { format: "mixlens", version: 1, mixlens: "0", title: "", texts: [text], maps: [entry] };
}

/** The product of maps, the last on the left. */
export function product(maps: number[][][]): number[][] {
  return maps.reduce((below, map) =>
    map.map((row) =>
      below[0]!.map((_, j) => row.reduce((sum, v, k) => sum + v * below[k]![j]!, 0)),
    ),
  );
}
