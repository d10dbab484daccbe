// How tokens group into what is shown: tokens, words, or segments of which some are open.

import type { Text } from "./payload";
import { visible } from "./visible";

export type Unit = "tokens" | "words" | "segments";

export interface Group {
  start: number;
  stop: number;
  /** The number of the closed segment that it is, or null. */
  segment: number | null;
}

export class Grouping {
  readonly groups: Group[];
  /** The group of each token. */
  readonly of: Int32Array;

  constructor(
    readonly text: Text,
    readonly unit: Unit,
    readonly open: ReadonlySet<number> = new Set(),
  ) {
    this.groups = groupsOf(text, unit, open);
    this.of = new Int32Array(text.labels.length);
    this.groups.forEach((group, number) => this.of.fill(number, group.start, group.stop));
  }

  get size(): number {
    return this.groups.length;
  }

  /** What a group writes, with invisible characters made visible. */
  label(number: number): string {
    const { start, stop, segment } = this.groups[number]!;
    const name = segment === null ? undefined : this.text.segments![segment]![2];
    return name === undefined ? this.beginning(start, stop, segment !== null) : visible(name);
  }

  /** The label with the name of the segment that it is in, if it has one: "7291 (document 1)". */
  placed(number: number): string {
    const { start, segment } = this.groups[number]!;
    const label = this.label(number);
    if (segment !== null || !this.text.segments) return label;
    const name = this.text.segments[segmentOf(this.text, start)]?.[2];
    const known = name === undefined || label.startsWith(name); // a patch has the name of its image
    return known ? label : `${label} (${visible(name)})`;
  }

  /** What tokens write; of a segment only how it begins. */
  private beginning(start: number, stop: number, cut: boolean): string {
    const end = cut ? Math.min(stop, start + 6) : stop;
    let found = "";
    for (let i = start; i < end; i++)
      found += (i > start ? this.text.gaps[i]!.replace(/\s+/g, " ") : "") + this.text.shown[i]!;
    return visible(found) + (end < stop ? " …" : "");
  }

  special(number: number): boolean {
    const { start, stop } = this.groups[number]!;
    return this.text.special.slice(start, stop).every((mark) => mark === 1);
  }
}

function groupsOf(text: Text, unit: Unit, open: ReadonlySet<number>): Group[] {
  const count = text.labels.length;
  const tokens = (start: number, stop: number): Group[] =>
    Array.from({ length: stop - start }, (_, i) => ({
      start: start + i,
      stop: start + i + 1,
      segment: null,
    }));
  const words = (start: number, stop: number): Group[] =>
    text.words
      ? text.words
          .filter(([a, b]) => a < stop && b > start)
          .map(([a, b]) => ({ start: Math.max(a, start), stop: Math.min(b, stop), segment: null }))
      : tokens(start, stop);
  if (unit === "tokens") return tokens(0, count);
  if (unit === "words" || !text.segments) return words(0, count);
  return text.segments.flatMap(([start, stop], segment) =>
    open.has(segment) ? words(start, stop) : [{ start, stop, segment }],
  );
}

export function segmentOf(text: Text, token: number): number {
  return text.segments ? text.segments.findIndex(([a, b]) => a <= token && token < b) : -1;
}
