// Tables of what measures say about one target: what two of them dispute, how far all agree.

import { disputes, spearman, without } from "../agreement";
import { css, inkOn, shade } from "../colour";
import type { Context } from "../context";
import { h, percent } from "../dom";
import { largest, ranked, type Measured } from "../measured";

/** A measure and its shares of the target. */
export interface Opinion {
  measured: Measured;
  values: Float64Array;
}

const MOST = 6; // disputed tokens that are shown

/** What every measure of these texts that holds the target says about it. */
export function opinionsOf(context: Context): Opinion[] {
  const { current, state } = context;
  return context.measured
    .filter(
      (each) =>
        each.targets === current.targets &&
        each.sources === current.sources &&
        each.holds(state.target),
    )
    .map((measured) => ({
      measured,
      values: context.incoming(measured, { depth: context.depthFor(measured), head: null }),
    }));
}

/** How far two measures agree on a target: the correlation of their ranks. */
export function agreement(context: Context, a: Opinion, b: Opinion): number {
  return spearman(without(a.values, context.own), without(b.values, context.own));
}

/** The measure that agrees least with the chosen one. Random numbers are not an opinion, and
 * those without layers explain the output, not the target. */
export function farthest(context: Context, opinions: Opinion[]): Opinion | null {
  const mine = opinions.find((each) => each.measured === context.current);
  const others = opinions.filter((each) => each !== mine);
  if (!mine || !others.length) return null;
  const mixing = others.filter((each) => each.measured.entry.layers.length > 0);
  const serious = (mixing.length ? mixing : others).filter(
    (each) => each.measured.entry.measure !== "random",
  );
  const apart = (each: Opinion) => {
    const rank = agreement(context, mine, each);
    return Number.isNaN(rank) ? 2 : rank;
  };
  return (serious.length ? serious : others).reduce((best, each) =>
    apart(each) < apart(best) ? each : best,
  );
}

/** Measures that order the sources alike; the first stands for them. */
export type Group = Opinion[];

const ALIKE = 0.95; // smallest rank correlation with the first of a group; compare.py has the same

/** Near-duplicates in groups: by the rank of the cue if there is one, else by their agreement with
 * the chosen measure, which is first. Random numbers are alone and last. */
export function groupsOf(context: Context, opinions: Opinion[]): Group[] {
  const mine = opinions.find((each) => each.measured === context.current) ?? opinions[0]!;
  const cue = context.cueGroup;
  const place = new Map(
    opinions.map((each) => [
      each,
      cue === null
        ? -agreement(context, mine, each) || 0
        : ranked(each.values, context.own).findIndex(({ group }) => group === cue),
    ]),
  );
  const isRandom = (each: Opinion) => Number(each.measured.entry.measure === "random");
  const sorted = [...opinions].sort(
    (a, b) =>
      isRandom(a) - isRandom(b) ||
      worst(place.get(a)!, cue) - worst(place.get(b)!, cue) ||
      Number(b === mine) - Number(a === mine),
  );
  const groups: Group[] = [];
  for (const each of sorted) {
    const found = groups.find(
      ([first]) =>
        !isRandom(each) &&
        (cue === null || place.get(first!) === place.get(each)) &&
        agreement(context, first!, each) >= ALIKE,
    );
    if (found) found.push(each);
    else groups.push([each]);
  }
  return groups;
}

/** A cue without a score is in no list: it ranks last. */
const worst = (place: number, cue: number | null): number =>
  cue !== null && place < 0 ? Number.MAX_SAFE_INTEGER : place;

/** The name of a group: its first measure, and how many are like it. */
export function groupName(context: Context, group: Group): string {
  const name = context.name(group[0]!.measured);
  return group.length > 1 ? `${name} +${group.length - 1}` : name;
}

/** How far two rows agree, as a word. */
export function agreementWord(rank: number): string {
  return rank > 0.8 ? "agree" : rank > 0.4 ? "agree in part" : "disagree";
}

/** Head and body of the table of disputed tokens, the most disputed first. */
export function disputeRows(context: Context, pair: Opinion[]): HTMLElement[] {
  const { own, sources } = context;
  const rows = pair.map((each) => each.values);
  const found = disputes(rows, own).slice(0, MOST);
  const scale = Math.max(...rows.map((values) => largest(values, own)));
  const orders = rows.map((values) => ranked(values, own).map((each) => each.group));
  const head = pair.flatMap((each) => [
    h("th", { scope: "col", colspan: "2" }, context.name(each.measured)),
    h("th", { scope: "col", class: "place" }, "rank"),
  ]);
  const cells = (group: number) =>
    rows.flatMap((values, i) => [
      h("td", { class: "bars" }, bar(context, values[group]!, scale)),
      h("td", { class: "number" }, percent(values[group]!)),
      h("td", { class: "place" }, place(orders[i]!.indexOf(group))),
    ]);
  const body = found
    .filter((each) => each.weight > 0)
    .map(({ group }) => {
      const label = h("th", { scope: "row", dir: "auto" }, sources.label(group));
      return h("tr", {}, label, ...cells(group));
    });
  return [
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "token"), ...head)),
    h("tbody", {}, ...body),
  ];
}

const place = (index: number): string => (index < 0 ? "–" : String(index + 1));

/** A bar as long as a value is large. */
export function bar(context: Context, value: number, scale: number, colour?: string): HTMLElement {
  const found = h("span", { class: "bar" });
  found.style.width = `${Math.min(100, scale > 0 ? (Math.abs(value) / scale) * 100 : 0)}%`;
  found.style.backgroundColor = colour ?? css(shade(context.palette, value < 0 ? -0.72 : 0.72));
  return found;
}

/** Rank correlation of every two groups, with the members of each. */
export function agreementTable(context: Context, groups: Group[]): HTMLElement {
  const rows = groups.map(([first]) => without(first!.values, context.own));
  const head = groups.map((_, i) => h("th", { scope: "col" }, letter(i)));
  const body = groups.map((group, i) => {
    const names = group.map((each) => context.name(each.measured)).join(", ");
    const name = h(
      "th",
      { scope: "row", title: names },
      h("b", {}, letter(i)),
      ` ${groupName(context, group)}`,
    );
    const cells = rows.map((other, j) =>
      i === j ? h("td", { class: "same" }, "·") : shaded(context, spearman(rows[i]!, other)),
    );
    return h("tr", {}, name, ...cells);
  });
  return h("table", {}, h("thead", {}, h("tr", {}, h("td"), ...head)), h("tbody", {}, ...body));
}

function shaded(context: Context, value: number): HTMLElement {
  if (Number.isNaN(value)) return h("td", {}, "–");
  const number = value.toFixed(2).replace("-", "−");
  const cell = h("td", { title: number }, h("span", {}, number));
  const colour = shade(context.palette, value * 0.9);
  cell.style.backgroundColor = css(colour);
  cell.style.color = inkOn(colour);
  return cell;
}

export function letter(i: number): string {
  return i < 26 ? String.fromCharCode(97 + i) : String(i);
}
