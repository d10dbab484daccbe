// Sources that readers leave out: special tokens, and the first token, onto which much attention
// falls in causal models (the attention sink). Targets that are all alike.

import { Grouping } from "./groups";
import type { Choice, Measured } from "./measured";
import type { Text } from "./payload";
import type { Hidden } from "./state";

const ALIKE = 0.1; // mean distance of targets from their mean
const SINK = 0.5; // mean share of the first token
const FEWEST = 4; // targets and sources, without which nothing can be said
const MOST = 64; // targets that are looked at

/** The special tokens of a text, but for a mask, which is what is asked about. */
function specials(text: Text): number[] {
  const found: number[] = [];
  text.special.forEach((mark, i) => {
    if (mark && !/mask/i.test(text.labels[i]!)) found.push(i);
  });
  return found;
}

/** The tokens that are left out of a text; `documents` are the names of its documents. */
export function hiddenSources(
  text: Text,
  hide: Hidden,
  documents: ReadonlySet<string>,
): Set<number> {
  const found = new Set<number>();
  if (hide === "others") {
    text.labels.forEach((_, i) => found.add(i));
    for (const [start, stop, name] of text.segments ?? [])
      if (name !== undefined && documents.has(name))
        for (let at = start; at < stop; at++) found.delete(at);
  }
  if (hide === "special" || hide === "both") for (const at of specials(text)) found.add(at);
  if (hide === "first" || hide === "both") found.add(0);
  return found;
}

/** What can be left out of a text, with its names. None of a picture or of sound. */
export function hideChoices(
  measured: Measured,
  documents: ReadonlySet<string>,
): [Hidden, string][] {
  const { sources } = measured;
  if (sources.seconds || sources.labels.length < 2) return [];
  const found: [Hidden, string][] = [["none", "nothing"]];
  const special = specials(sources);
  if (special.length) found.push(["special", "special tokens"]);
  const isFirst = special[0] === 0;
  if (special.length !== 1 || !isFirst) found.push(["first", "first token (attention sink)"]);
  if (special.length && !isFirst) found.push(["both", "special and first tokens"]);
  if (sources.segments?.some(([, , name]) => name !== undefined && documents.has(name)))
    found.push(["others", "all but documents"]);
  return found;
}

export interface Alike {
  /** The mean distance of targets from their mean: 0 if all are the same, up to 1. */
  distance: number;
  /** The mean share of the first token. */
  first: number;
}

/** How far targets differ from one another, by total variation; null if they do, or if there are
 * too few to say. A target's share of itself is not compared. */
export function alike(measured: Measured, choice: Choice): Alike | null {
  const rows = sampledRows(measured, choice);
  if (rows.length < FEWEST || rows[0]!.values.length < FEWEST) return null;
  const mean = new Float64Array(rows[0]!.values.length);
  const count = new Float64Array(mean.length);
  for (const { own, values } of rows)
    values.forEach((value, i) => {
      if (i === own) return;
      mean[i]! += value;
      count[i]! += 1;
    });
  mean.forEach((value, i) => (mean[i] = count[i] ? value / count[i]! : 0));
  const all = mean.reduce((a, b) => a + b, 0);
  let distance = 0;
  for (const { own, values } of rows) {
    const rest = all - (mean[own] ?? 0);
    values.forEach((value, i) => {
      const expected = i === own || rest <= 0 ? 0 : mean[i]! / rest;
      distance += Math.abs(value - expected) / 2 / rows.length;
    });
  }
  return distance < ALIKE ? { distance, first: mean[0]! / all } : null;
}

/** The sources of some targets, each without the target itself (-1 if it is none of them). */
function sampledRows(measured: Measured, choice: Choice): { own: number; values: Float64Array }[] {
  const { held, square } = measured;
  const sources = new Grouping(measured.sources, "tokens");
  const targets = new Grouping(measured.targets, "tokens");
  const step = Math.max(1, held.length / MOST);
  const rows = [];
  for (let at = 0; at < held.length; at += step) {
    const target = held[Math.floor(at)]!;
    const own = square ? target : -1;
    const values = measured.incoming(choice, targets, target, sources).map(Math.abs);
    if (square) values[own] = 0;
    const sum = values.reduce((a, b) => a + b, 0);
    if (sum > 0) rows.push({ own, values: values.map((value) => value / sum) });
  }
  return rows;
}

export const isSink = (found: Alike): boolean => found.first > SINK;
