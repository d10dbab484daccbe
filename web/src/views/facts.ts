// Two lines under the answer: in which layers, and which measure says something else.

import { disputes } from "../agreement";
import type { Context } from "../context";
import { h, inARow, percent, short } from "../dom";
import { ranked } from "../measured";
import { agreement, agreementWord, farthest, opinionsOf } from "./opinions";

const MOST = 3;

interface Peak {
  label: string;
  layer: number;
  value: number;
}

/** The lines about the chosen target; none of what these maps cannot tell. */
export function factLines(context: Context): HTMLElement[] {
  return [layerLine(context), measureLine(context)].filter((line) => line !== null);
}

/** The sources that gave most in a single layer, each with the layer where it did. */
export function peaks(context: Context): Peak[] {
  const { current, state } = context;
  const { targets } = context;
  const sources = context.fine(current.sources);
  const group = targets.of[state.target]!;
  const own = current.square ? sources.of[state.target]! : -1;
  const best = new Map<number, Peak>();
  current.entry.layers.forEach((layer, depth) => {
    const values = current.incoming({ depth, head: state.head }, targets, group, sources);
    for (const found of ranked(values, own).slice(0, MOST)) {
      const size = Math.abs(found.value);
      if (size > Math.abs(best.get(found.group)?.value ?? 0))
        best.set(found.group, { label: sources.label(found.group), layer, value: found.value });
    }
  });
  return [...best.values()].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, MOST);
}

function layerLine(context: Context): HTMLElement | null {
  const { entry } = context.current;
  const found = entry.layers.length > 1 ? peaks(context) : [];
  if (!found.length) return null;
  const parts = found.map(({ label, layer, value }) => [
    h("b", {}, short(label)),
    ` (${percent(value)} ${entry.reaches_input ? "up to" : "in"} layer ${layer})`,
  ]);
  return h("p", {}, "Largest contributions: ", ...inARow(parts), ".");
}

/** The measure that differs most, and the token on which it does. */
function measureLine(context: Context): HTMLElement | null {
  const opinions = opinionsOf(context);
  const other = farthest(context, opinions);
  const mine = opinions.find((each) => each.measured === context.current);
  if (!other || !mine) return null;
  const rank = agreement(context, mine, other);
  const count = opinions.length - 1;
  const name = h("b", {}, context.name(other.measured));
  const correlation = ` (rank correlation ${rank.toFixed(2).replace("-", "−")})`;
  const start =
    count === 1
      ? [name, ` ${agreementWord(rank).replace("agree", "agrees")}${correlation}`]
      : [`Of ${count} other measures, `, name, ` agrees least${correlation}`];
  const dispute = disputes([mine.values, other.values], context.own)[0];
  if (dispute) start.push(...differing(context, dispute.group, mine.values, other.values));
  const map = context.measured.indexOf(other.measured);
  const open = () => context.actions.set({ view: "compare", other: map });
  return h(
    "p",
    {},
    ...start,
    ". ",
    h("button", { type: "button", class: "link", onclick: open }, "Compare"),
  );
}

function differing(
  context: Context,
  group: number,
  mine: ArrayLike<number>,
  other: ArrayLike<number>,
): (HTMLElement | string)[] {
  const label = h("b", {}, short(context.sources.label(group)));
  const shares = ` ${percent(other[group]!)} instead of ${percent(mine[group]!)}`;
  return ["; it differs most on ", label, `:${shares}`];
}
