// One entry of the payload, read: rows, columns and rankings over groups, for a chosen layer.

import type { Grouping } from "./groups";
import { numbers, unpacked, type Shares } from "./packed";
import type { Entry, Payload, Text, WrittenArray } from "./payload";

/** A layer by its index; all layers joined, or those up to one ("to3"); or the mean of the layers'
 * shares. */
export type Depth = number | "all" | "mean" | `to${number}`;

/** The layer up to which a depth joins layers, by its index; null if it does not. */
export function joinedTo(depth: Depth): number | null {
  return typeof depth === "string" && depth.startsWith("to") ? Number(depth.slice(2)) : null;
}

export function readDepth(text: string): Depth {
  return text === "all" || text === "mean" || text.startsWith("to")
    ? (text as Depth)
    : Number(text);
}

export interface Choice {
  depth: Depth;
  head: number | null;
}

interface Plane {
  shares: Shares;
  layer: number;
  totals: Float32Array | null;
}

export class Measured {
  readonly targets: Text;
  readonly sources: Text;
  readonly held: number[];
  readonly heads: number;
  readonly square: boolean;
  private readonly rowOf: Map<number, number>;
  private readonly layers: Shares | null;
  private readonly joined: Shares | null;
  private readonly perHead: Shares | null;
  private readonly totals: Float32Array | null;
  private readonly joinedTotals: Float32Array | null;
  private norms = new WeakMap<Grouping, Map<string, Float64Array>>();
  /** Sources that are left out: the shares of the others add up to one. */
  private without: ReadonlySet<number> = new Set();

  constructor(
    payload: Payload,
    readonly entry: Entry,
  ) {
    this.targets = payload.texts[entry.targets]!;
    this.sources = payload.texts[entry.sources]!;
    this.square = entry.targets === entry.sources;
    this.held = entry.target_positions ?? this.targets.labels.map((_, i) => i);
    this.rowOf = new Map(this.held.map((position, row) => [position, row]));
    this.layers = entry.scores && unpacked(entry.scores);
    this.joined = entry.joined && unpacked(entry.joined.scores);
    this.perHead = entry.heads ? unpacked(entry.heads) : null;
    this.heads = this.perHead ? this.perHead.layers / entry.layers.length : 0;
    const read = (written?: WrittenArray) => (written ? (numbers(written) as Float32Array) : null);
    this.totals = read(entry.totals);
    this.joinedTotals = read(entry.joined?.totals);
  }

  leaveOut(sources: ReadonlySet<number>): void {
    this.without = sources;
    this.norms = new WeakMap();
  }

  get complete(): boolean {
    return (this.layers?.complete ?? true) && (this.joined?.complete ?? true);
  }

  /** Does it hold every target, so that layers can be followed? */
  get whole(): boolean {
    return this.square && this.entry.target_positions === null && this.layers !== null;
  }

  /** Can the layers be followed to the input? */
  get canFlow(): boolean {
    return this.whole && this.joined !== null && !this.entry.reaches_input;
  }

  /** The depths that can be chosen, the best first. */
  get depths(): Depth[] {
    const single = this.entry.layers.map((_, i) => i);
    const { joined, reaches_input } = this.entry;
    const averaged = joined?.how === "mean" || joined?.how === "sum()";
    const several: Depth[] = single.length > 1 && !reaches_input && !averaged ? ["mean"] : [];
    const all: Depth[] = this.joined ? ["all"] : [];
    const first = this.entry.reading === "all" ? [...all, ...several] : [...several, ...all];
    return [...first, ...this.upTo, ...single];
  }

  /** The layers joined up to each but the last, if the page has them. */
  get upTo(): Depth[] {
    const count = this.joined?.layers ?? 0;
    return Array.from({ length: Math.max(0, count - 1) }, (_, i): Depth => `to${i}`);
  }

  /** The depth of the first screen, as Python decided it. */
  get defaultDepth(): Depth {
    const { reading, layers } = this.entry;
    if (reading !== undefined && this.depths.includes(reading)) return reading;
    return this.depths.includes("mean") ? "mean" : this.joined ? "all" : layers.length - 1;
  }

  /** Is the diagonal at this depth the share that a token keeps of itself? */
  hasOwnShare(depth: Depth): boolean {
    const { own_share, joined } = this.entry;
    return Boolean(this.isJoined(depth) ? joined!.own_share : own_share);
  }

  /** Why the numbers at this depth must not be read as an answer, or null. */
  warningAt(depth: Depth): string | null {
    const { warnings, joined } = this.entry;
    if (this.isJoined(depth)) return joined!.warnings?.[this.joinedLayer(depth)] ?? null;
    return typeof depth === "number" ? (warnings?.[depth] ?? null) : null;
  }

  private joinedLayer(depth: Depth): number {
    return joinedTo(depth) ?? this.joined!.layers - 1;
  }

  /** Does a depth show layers joined in Python, not those of the measure? */
  isJoined(depth: Depth): boolean {
    return this.joined !== null && typeof depth === "string" && depth !== "mean";
  }

  depthName(depth: Depth): string {
    if (depth === "mean") return `Mean of ${this.entry.layers.length} layers`;
    const how = this.entry.joined?.how.replace(/\(.*/, "") ?? "";
    if (depth === "all" && how === "last") return "Last layer";
    if (depth === "all") return /^-?\d+$/.test(how) ? `Layer ${how}` : `All layers (${how})`;
    const to = joinedTo(depth);
    if (to !== null) return `Layers up to ${this.entry.layers[to]} (${how})`;
    const joined = ((this.entry.provenance.steps as string[]) ?? []).find((s) =>
      /^(rollout|flow)/.test(s),
    );
    const name = `Layer ${this.entry.layers[depth as number]}`;
    return joined ? `${name} (${joined.replace(/\(.*/, "")} up to it)` : name;
  }

  holds(position: number): boolean {
    return this.rowOf.has(position);
  }

  /** Where a choice's numbers lie. */
  private planes({ depth, head }: Choice): Plane[] {
    if (this.isJoined(depth)) return [this.joinedPlane(this.joinedLayer(depth))];
    if (typeof depth === "string")
      return this.entry.layers.flatMap((_, layer) => this.planes({ depth: layer, head }));
    if (head !== null && this.perHead)
      return [{ shares: this.perHead, layer: depth * this.heads + head, totals: null }];
    if (!this.layers) return [];
    return [{ shares: this.layers, layer: depth, totals: this.part(this.totals, depth) }];
  }

  private joinedPlane(layer: number): Plane {
    return { shares: this.joined!, layer, totals: this.part(this.joinedTotals, layer) };
  }

  private part(totals: Float32Array | null, layer: number): Float32Array | null {
    const rows = this.held.length;
    return totals?.subarray(layer * rows, (layer + 1) * rows) ?? null;
  }

  private rows(grouping: Grouping, group: number): number[] {
    const { start, stop } = grouping.groups[group]!;
    const found: number[] = [];
    for (let at = start; at < stop; at++) {
      const row = this.rowOf.get(at);
      if (row !== undefined) found.push(row);
    }
    return found;
  }

  /** What a target group took from each source group: shares that add up to one in size, short of
   * what was left out. Pieces of a word are summed as sources and averaged as targets. */
  incoming(choice: Choice, targets: Grouping, target: number, sources: Grouping): Float64Array {
    const found = new Float64Array(sources.size);
    const planes = this.planes(choice);
    const rows = this.rows(targets, target);
    for (const plane of planes) {
      const part = planes.length > 1 ? new Float64Array(sources.size) : found;
      const norm = this.accumulate(plane, rows, sources, part);
      const scale = norm > 0 ? 1 / norm / planes.length : 0;
      for (let i = 0; i < part.length; i++) {
        if (part === found) found[i]! *= scale;
        else found[i]! += part[i]! * scale;
      }
    }
    return found;
  }

  /** The part of a target group's score that comes from some sources, even if they are left out. */
  shareOf(choice: Choice, targets: Grouping, target: number, some: ReadonlySet<number>): number {
    const planes = this.planes(choice);
    const rows = this.rows(targets, target);
    let found = 0;
    for (const { shares, layer, totals } of planes) {
      let [part, whole] = [0, 0];
      for (const row of rows) {
        const total = totals ? totals[row]! : 1;
        whole += total;
        shares.eachOfRow(layer, row, (source, value) => {
          if (some.has(source)) part += Math.abs(value) * total;
        });
      }
      if (whole > 0) found += part / whole / planes.length;
    }
    return found;
  }

  /** Adds the scores of rows, and returns the sum of their sizes with what was left out. */
  private accumulate(plane: Plane, rows: number[], sources: Grouping, into: Float64Array): number {
    let left = 0;
    for (const row of rows) {
      const total = plane.totals ? plane.totals[row]! : 1;
      let kept = 0;
      plane.shares.eachOfRow(plane.layer, row, (source, value) => {
        if (!this.without.has(source)) into[sources.of[source]!]! += value * total;
        kept += Math.abs(value);
      });
      if (!plane.shares.complete) left += Math.max(0, 1 - kept) * total;
    }
    let size = left;
    for (const value of into) size += Math.abs(value);
    return size;
  }

  /** How much of a source group is in each target group. */
  outgoing(choice: Choice, targets: Grouping, sources: Grouping, source: number): Float64Array {
    const found = new Float64Array(targets.size);
    const planes = this.planes(choice);
    const { start, stop } = sources.groups[source]!;
    for (const plane of planes) {
      const norms = this.normsOf(plane, targets, sources);
      for (let at = start; at < stop; at++) {
        if (this.without.has(at)) continue;
        plane.shares.eachOfColumn(plane.layer, at, (row, value) => {
          const group = targets.of[this.held[row]!]!;
          const norm = norms[group]!;
          const total = plane.totals ? plane.totals[row]! : 1;
          if (norm > 0) found[group]! += (value * total) / norm / planes.length;
        });
      }
    }
    return found;
  }

  private normsOf(plane: Plane, targets: Grouping, sources: Grouping): Float64Array {
    const known = this.norms.get(targets) ?? new Map<string, Float64Array>();
    this.norms.set(targets, known);
    const key = `${plane.shares === this.perHead} ${plane.shares === this.joined} ${plane.layer}`;
    const found = known.get(key) ?? new Float64Array(targets.size);
    if (known.has(key)) return found;
    for (let group = 0; group < targets.size; group++) {
      const rows = this.rows(targets, group);
      if (this.entry.signed || this.without.size)
        found[group] = this.accumulate(plane, rows, sources, new Float64Array(sources.size));
      else for (const row of rows) found[group]! += plane.totals ? plane.totals[row]! : 1;
    }
    known.set(key, found);
    return found;
  }

  /** What one token of a layer takes from the layer below, as the rollout multiplies it: the
   * identity mixed in, rows made to add up to one unless the measure's rollout does not. */
  eachTransition(
    layer: number,
    token: number,
    visit: (source: number, value: number) => void,
  ): void {
    const { residual = 0, normalise } = this.entry.joined!;
    const scale =
      this.entry.signed || !this.totals ? 1 : this.totals[layer * this.held.length + token]!;
    let sum = residual;
    if (normalise !== false)
      this.layers!.eachOfRow(layer, token, (_, value) => {
        sum += (1 - residual) * Math.abs(value) * scale;
      });
    const by = normalise === false ? 1 : sum > 0 ? 1 / sum : 0;
    if (residual > 0) visit(token, residual * by);
    this.layers!.eachOfRow(layer, token, (source, value) =>
      visit(source, (1 - residual) * Math.abs(value) * scale * by),
    );
  }

  /** A row's score behind its share, where one token is asked of one token. */
  total({ depth, head }: Choice, position: number): number | null {
    if (head !== null || typeof depth !== "number" || !this.totals) return null;
    const row = this.rowOf.get(position);
    return row === undefined ? null : this.totals[depth * this.held.length + row]!;
  }
}

export interface Ranked {
  group: number;
  value: number;
}

/** Groups from the largest share to the smallest in size, without one of them. */
export function ranked(values: ArrayLike<number>, without: number): Ranked[] {
  const found: Ranked[] = [];
  for (let group = 0; group < values.length; group++)
    if (group !== without && values[group] !== 0) found.push({ group, value: values[group]! });
  return found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.group - b.group);
}

/** The largest size, without one group. */
export function largest(values: ArrayLike<number>, without: number): number {
  let found = 0;
  for (let i = 0; i < values.length; i++)
    if (i !== without) found = Math.max(found, Math.abs(values[i]!));
  return found;
}
