// Following one target down to the input: how much of it passes each token of each layer.

import type { Grouping } from "./groups";
import type { Measured } from "./measured";

export interface Edge {
  /** From token `source` of level `level` to token `target` of level + 1. Level 0 is the input. */
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

/** What each layer hands on: its shares with the identity mixed in, as in the rollout. */
function transition(
  measured: Measured,
  layer: number,
  grouping: Grouping,
  group: number,
): Float64Array {
  const row = measured.incoming({ depth: layer, head: null }, grouping, group, grouping);
  const residual = measured.entry.joined?.residual ?? 0;
  let sum = 0;
  for (let i = 0; i < row.length; i++) {
    row[i] = (1 - residual) * Math.abs(row[i]!) + (i === group ? residual : 0);
    sum += row[i]!;
  }
  if (sum > 0) for (let i = 0; i < row.length; i++) row[i]! /= sum;
  return row;
}

/** All of one target, from the last layer (`top` layers) down to the input. */
export function traced(measured: Measured, grouping: Grouping, target: number, top: number): Flow {
  const mass = Array.from({ length: top + 1 }, () => new Float64Array(grouping.size));
  mass[top]![target] = 1;
  const edges: Edge[] = [];
  for (let level = top - 1; level >= 0; level--) {
    for (let group = 0; group < grouping.size; group++) {
      const above = mass[level + 1]![group]!;
      if (above < 1e-6) continue;
      const row = transition(measured, level, grouping, group);
      for (let source = 0; source < row.length; source++) {
        const value = above * row[source]!;
        if (value === 0) continue;
        mass[level]![source]! += value;
        if (value > 1e-4) edges.push({ level, source, target: group, value });
      }
    }
  }
  return { levels: top + 1, mass, edges };
}

/** The part of a flow that passes one token of one level: what comes into it, and what it becomes. */
export function through(flow: Flow, level: number, group: number): Edge[] {
  const down = flow.mass.map((row) => new Float64Array(row.length));
  const up = flow.mass.map((row) => new Float64Array(row.length));
  const passing = flow.mass[level]![group]!;
  down[level]![group] = passing;
  up[level]![group] = passing;
  const found: Edge[] = [];
  const byLevel: Edge[][] = flow.mass.map(() => []);
  for (const edge of flow.edges) byLevel[edge.level]!.push(edge);
  for (let at = level - 1; at >= 0; at--)
    for (const edge of byLevel[at]!) {
      const whole = flow.mass[at + 1]![edge.target]!;
      const value = whole > 0 ? (edge.value * down[at + 1]![edge.target]!) / whole : 0;
      if (value > 0) found.push({ ...edge, value });
      down[at]![edge.source]! += value;
    }
  for (let at = level; at < flow.levels - 1; at++)
    for (const edge of byLevel[at]!) {
      const whole = flow.mass[at]![edge.source]!;
      const value = whole > 0 ? (edge.value * up[at]![edge.source]!) / whole : 0;
      if (value > 0) found.push({ ...edge, value });
      up[at + 1]![edge.target]! += value;
    }
  return found;
}
