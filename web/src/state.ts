// What is looked at, and the same as the fragment of a link.

import type { Part } from "./answered";
import type { Unit } from "./groups";
import { readDepth, type Depth } from "./measured";

export const VIEWS = ["answer", "text", "map", "heads", "flow", "compare"] as const;
export type View = (typeof VIEWS)[number];

export const HIDDEN = ["none", "special", "first", "both", "others"] as const;
export type Hidden = (typeof HIDDEN)[number];

export interface State {
  view: View;
  map: number;
  other: number | null;
  target: number;
  depth: Depth;
  /** What the thin rows are: each layer by itself, or all layers up to it joined. */
  rows: "each" | "upto";
  head: number | null;
  unit: Unit;
  threshold: number;
  open: number[];
  node: [number, number] | null;
  /** Sources that are left out of the maps. */
  hide: Hidden;
  /** Of an answer: the method, the part that is kept, and what the pointer follows. */
  method: number;
  part: Part;
  follow: "words" | "sentences";
  theme: "auto" | "light" | "dark";
}

export function toFragment(state: State, first: State): string {
  const found = new URLSearchParams();
  const put = (key: string, value: unknown, was: unknown) => {
    if (JSON.stringify(value) !== JSON.stringify(was)) found.set(key, String(value ?? ""));
  };
  put("view", state.view, first.view);
  put("measure", state.map, first.map);
  put("with", state.other, first.other);
  put("target", state.target, first.target);
  put("layer", state.depth, first.depth);
  put("rows", state.rows, first.rows);
  put("head", state.head, first.head);
  put("unit", state.unit, first.unit);
  put("from", state.threshold, first.threshold);
  put("open", state.open, first.open);
  put("node", state.node, first.node);
  put("hide", state.hide, first.hide);
  put("method", state.method, first.method);
  put("part", state.part, first.part);
  put("follow", state.follow, first.follow);
  put("theme", state.theme, first.theme);
  return found.toString();
}

/** The state that a fragment names; what it does not name, or names wrongly, is as at first. */
export function fromFragment(fragment: string, first: State): State {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const number = (key: string, was: number): number => {
    const text = given.get(key);
    const value = Number(text);
    return text !== null && text !== "" && Number.isFinite(value) ? value : was;
  };
  const optional = (key: string, was: number | null): number | null =>
    given.get(key) === "" ? null : given.has(key) ? number(key, -1) : was;
  const one = <T extends string>(key: string, all: readonly T[], was: T): T =>
    all.find((each) => each === given.get(key)) ?? was;
  const list = (key: string): number[] =>
    (given.get(key) ?? "").split(",").filter(Boolean).map(Number);
  const depth = given.get("layer");
  const node = list("node");
  return {
    view: one("view", VIEWS, first.view),
    map: number("measure", first.map),
    other: optional("with", first.other),
    target: number("target", first.target),
    depth: depth ? readDepth(depth) : first.depth,
    rows: one("rows", ["each", "upto"] as const, first.rows),
    head: optional("head", first.head),
    unit: one("unit", ["tokens", "words", "segments"] as const, first.unit),
    threshold: number("from", first.threshold),
    open: given.has("open") ? list("open") : first.open,
    node: node.length === 2 ? [node[0]!, node[1]!] : null,
    hide: one("hide", HIDDEN, first.hide),
    method: number("method", first.method),
    part: (given.get("part") ?? first.part) as Part,
    follow: one("follow", ["words", "sentences"] as const, first.follow),
    theme: one("theme", ["auto", "light", "dark"] as const, first.theme),
  };
}
