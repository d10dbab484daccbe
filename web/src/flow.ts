// Following one target down to the input: how much of it passes each token of each layer.
//
// Layers are followed token by token, with the same matrices as the rollout, and merged into words
// or segments afterwards: what arrives at the input is the rollout's row of the target.

import type { Grouping } from "./groups";
import type { Measured } from "./measured";

export interface Edge {
  /** From group `source` of level `level` to group `target` of level + 1. Level 0 is the input. */
  level: number;
  source: number;
  target: number;
  value: number;
}

export interface Flow {
  levels: number;
  /** [level][group]: the part of the target that passes there. */
  mass: Float64Array[];
  edges: Edge[];
}

const THINNEST = 1e-4; // edges below are not kept

/** All of one target, from its row in the last of `depth` layers down to the input. */
export function traced(
  measured: Measured,
  grouping: Grouping,
  target: number,
  depth = measured.entry.layers.length,
): Flow {
  const onward = onwards(measured);
  const { start, stop } = grouping.groups[target]!;
  let above = new Float64Array(grouping.of.length);
  let whole = 0;
  for (let at = start; at < stop; at++) whole += onward[depth]![at]!;
  for (let at = start; at < stop; at++) above[at] = whole > 0 ? 1 / whole : 0;
  const mass = Array.from({ length: depth + 1 }, () => new Float64Array(grouping.size));
  for (let at = start; at < stop; at++) mass[depth]![target]! += above[at]! * onward[depth]![at]!;
  const edges: Edge[] = [];
  for (let level = depth - 1; level >= 0; level--) {
    const below = new Float64Array(above.length);
    const merged = new Map<number, number>();
    for (let at = 0; at < above.length; at++) {
      if (above[at] === 0) continue;
      const part = above[at]!;
      measured.eachTransition(level, at, (source, value) => {
        below[source]! += part * value;
        const key = grouping.of[source]! * grouping.size + grouping.of[at]!;
        merged.set(key, (merged.get(key) ?? 0) + part * value * onward[level]![source]!);
      });
    }
    for (const [key, value] of merged) {
      const source = Math.floor(key / grouping.size);
      mass[level]![source]! += value;
      if (value > THINNEST) edges.push({ level, source, target: key % grouping.size, value });
    }
    above = below;
  }
  return { levels: depth + 1, mass, edges };
}

/** [level][token]: what a token of a level weighs in all, which is one if rows add up to one. */
function onwards(measured: Measured): Float64Array[] {
  const count = measured.sources.labels.length;
  const found = [new Float64Array(count).fill(1)];
  measured.entry.layers.forEach((_, level) => {
    const row = new Float64Array(count).fill(measured.entry.joined?.normalise === false ? 0 : 1);
    if (measured.entry.joined?.normalise === false)
      for (let at = 0; at < count; at++)
        measured.eachTransition(level, at, (source, value) => {
          row[at]! += value * found[level]![source]!;
        });
    found.push(row);
  });
  return found;
}

/** The part of a flow that passes one token of one level: what comes in, and what it becomes. */
export function through(flow: Flow, level: number, group: number): Edge[] {
  const found: Edge[] = [];
  const byLevel: Edge[][] = flow.mass.map(() => []);
  for (const edge of flow.edges) byLevel[edge.level]!.push(edge);
  let passing = new Float64Array(flow.mass[level]!.length);
  passing[group] = flow.mass[level]![group]!;
  for (let at = level - 1; at >= 0; at--) {
    const next = new Float64Array(passing.length);
    for (const edge of byLevel[at]!) {
      const all = flow.mass[at + 1]![edge.target]!;
      const value = all > 0 ? (edge.value * passing[edge.target]!) / all : 0;
      if (value > 0) found.push({ ...edge, value });
      next[edge.source]! += value;
    }
    passing = next;
  }
  passing = new Float64Array(passing.length);
  passing[group] = flow.mass[level]![group]!;
  for (let at = level; at < flow.levels - 1; at++) {
    const next = new Float64Array(passing.length);
    for (const edge of byLevel[at]!) {
      const all = flow.mass[at]![edge.source]!;
      const value = all > 0 ? (edge.value * passing[edge.source]!) / all : 0;
      if (value > 0) found.push({ ...edge, value });
      next[edge.target]! += value;
    }
    passing = next;
  }
  return found;
}
