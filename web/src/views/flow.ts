// The flow through the layers to one target: edges by what passes, thin ones left out, and one
// token traced by a click.

import { css, shade } from "../colour";
import type { Context, View } from "../context";
import { canvasOf, h, isolated, percent, refill, tableBehind, within } from "../dom";
import { through, traced, type Edge, type Flow } from "../flow";
import { joinedTo } from "../measured";
import { fitted, prepared, type Painter } from "../painter";

const LEFT = 64;
const TOP = 40;
const FOOT = 92;
const MOST = 1200; // groups

export class FlowView implements View {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly words = h("p", { class: "quiet", "aria-live": "polite" });
  private readonly slider: HTMLInputElement;
  private readonly shown = h("output", {});
  private readonly table: HTMLDetailsElement;
  private readonly controls: HTMLElement;
  private context!: Context;
  private flow: Flow | null = null;
  private key = "";
  private width = 0;
  private step = 54;
  private at: [number, number] | null = null; // level, group

  constructor() {
    this.canvas = canvasOf({
      over: (event) => this.over(event),
      leave: () => this.leave(),
      choose: () => this.trace(),
      step: (right, down) => this.walk(right, down),
    });
    this.slider = h("input", {
      type: "range",
      min: "0",
      max: "100",
      step: "1",
      "aria-label": "Smallest share that is drawn",
      oninput: () => this.context.actions.set({ threshold: fromSlider(Number(this.slider.value)) }),
    });
    this.controls = h(
      "label",
      { class: "field" },
      h("span", {}, "Smallest share"),
      this.slider,
      this.shown,
    );
    this.table = tableBehind("Flow", () => this.rows());
    this.element = h(
      "div",
      { class: "flow-view" },
      h("div", { class: "bar-line" }, this.words, this.controls),
      this.canvas,
      this.table,
    );
  }

  update(context: Context): void {
    this.context = context;
    const { current, state, targets } = context;
    const reason = this.refusal();
    this.canvas.hidden = this.table.hidden = this.controls.hidden = reason !== null;
    if (reason !== null) {
      this.words.textContent = reason;
      return;
    }
    const depth = this.depth();
    const key = [state.map, state.target, state.unit, state.open, targets.size, depth].join(" ");
    if (key !== this.key) {
      this.key = key;
      this.flow = traced(current, targets, targets.of[state.target]!, depth);
    }
    this.slider.value = String(toSlider(state.threshold));
    this.shown.textContent = percent(state.threshold);
    this.canvas.setAttribute(
      "aria-label",
      "The flow from the input tokens to the target. Arrow keys move between tokens and " +
        "layers, Enter traces one.",
    );
    this.draw();
    refill(this.table, () => this.rows());
  }

  /** How many layers are followed: all, or those up to the chosen one. */
  private depth(): number {
    const { state, current } = this.context;
    const layer = typeof state.depth === "number" ? state.depth : joinedTo(state.depth);
    return layer === null ? current.entry.layers.length : layer + 1;
  }

  private refusal(): string | null {
    const { current, targets } = this.context;
    if (current.entry.reaches_input)
      return (
        `Each layer of ${current.entry.measure} already refers to the input tokens, ` +
        "so there is no flow to show."
      );
    if (!current.whole || !current.entry.joined)
      return (
        "The flow needs the maps of all layers and all targets of one text. " +
        "These maps have only some targets or layers, or two texts."
      );
    return targets.size > MOST
      ? "The text is too long for this view. Choose words or segments above."
      : null;
  }

  private edges(): Edge[] {
    const { node, threshold } = this.context.state;
    const flow = this.flow!;
    const fits = node && node[0] < flow.levels && node[1] < this.context.targets.size;
    const all = fits ? through(flow, node[0], node[1]) : flow.edges;
    return all.filter((edge) => edge.value >= threshold).sort((a, b) => a.value - b.value);
  }

  private x(group: number): number {
    return LEFT + ((group + 0.5) * (this.width - LEFT - 12)) / this.context.targets.size;
  }

  private y(level: number): number {
    return TOP + (this.flow!.levels - 1 - level) * this.step;
  }

  private draw(): void {
    if (this.canvas.hidden || !this.flow) return;
    this.width = this.element.clientWidth || 900;
    this.step = this.flow.levels > 14 ? 34 : 56;
    const height = this.y(0) + FOOT;
    const painter = prepared(this.canvas, this.width, height);
    this.painted(painter, this.context);
  }

  private painted(painter: Painter, context: Context): void {
    const { palette, state, targets, current } = context;
    const flow = this.flow!;
    const edges = this.edges();
    const names = current.entry.layers;
    for (let level = 0; level < flow.levels; level++) {
      const name =
        level === 0 ? "input" : `${level === flow.levels - 1 ? "layer " : ""}${names[level - 1]}`;
      painter.text(LEFT - 12, this.y(level) + 4, name, {
        size: 12,
        fill: palette.quiet,
        align: "right",
      });
      painter.rect(LEFT, this.y(level), this.width - LEFT - 12, 0.5, palette.line);
    }
    const blue = css(shade(palette, 0.78));
    const seen = new Map<string, number>();
    // What passes a traced token is drawn as if it were all there is.
    const whole = (state.node && flow.mass[state.node[0]]?.[state.node[1]]) || 1;
    for (const edge of edges) {
      const part = edge.value / whole;
      const width = Math.max(0.8, 15 * part);
      painter.curve(
        this.x(edge.source),
        this.y(edge.level),
        this.x(edge.target),
        this.y(edge.level + 1),
        width,
        blue,
        Math.min(0.9, 0.22 + 1.6 * part),
      );
      for (const [level, group] of [
        [edge.level, edge.source],
        [edge.level + 1, edge.target],
      ] as const)
        seen.set(`${level} ${group}`, flow.mass[level]![group]!);
    }
    const top = flow.levels - 1;
    const target = targets.of[state.target]!;
    seen.set(`${top} ${target}`, 1);
    for (const [key, mass] of seen) {
      const [level, group] = key.split(" ").map(Number) as [number, number];
      const traced = state.node?.[0] === level && state.node[1] === group;
      const pointed = this.at?.[0] === level && this.at[1] === group;
      painter.circle(
        this.x(group),
        this.y(level),
        2.5 + 5.5 * Math.sqrt(mass),
        blue,
        traced || pointed ? palette.ink : palette.paper,
      );
    }
    const half = painter.width(targets.label(target), 14, 700) / 2;
    const middle = Math.max(half, Math.min(this.width - half - 2, this.x(target)));
    painter.text(middle, this.y(top) - 16, targets.label(target), {
      size: 14,
      weight: 700,
      fill: palette.ink,
      align: "center",
    });
    this.inputs(painter, context, seen);
    const traced = state.node
      ? ` through ${isolated(targets.label(state.node[1]))} at ${levelName(state.node[0], names)}`
      : "";
    const label = isolated(targets.label(target));
    const part = state.node ? (flow.mass[state.node[0]]?.[state.node[1]] ?? 0) : 0;
    this.words.textContent = traced
      ? `${percent(part)} of ${label} passes${traced}. Click the point again to see the whole flow.`
      : `The flow to ${label}, from the input (bottom) to ` +
        `${top === names.length ? "the last layer" : `layer ${names[top - 1]}`} (top). ` +
        "Click a point to trace the flow through it.";
  }

  /** Labels of the input: all if they fit, else those that give most, with their shares. */
  private inputs(painter: Painter, context: Context, seen: Map<string, number>): void {
    const { palette, targets } = context;
    const room = (this.width - LEFT) / targets.size;
    const order = targets.groups
      .map((_, i) => i)
      .sort((a, b) => this.flow!.mass[0]![b]! - this.flow!.mass[0]![a]!);
    const taken: number[] = [];
    for (const group of order) {
      const x = this.x(group);
      const inside = seen.has(`0 ${group}`);
      if (room < 15 && (!inside || taken.some((other) => Math.abs(other - x) < 15))) continue;
      taken.push(x);
      const label = fitted(painter, targets.label(group), 12, 84);
      painter.text(x + 4, this.y(0) + 18, label, {
        size: 12,
        rotate: -50,
        align: "right",
        fill: inside ? palette.ink : palette.quiet,
        weight: inside ? 600 : 400,
      });
    }
  }

  private over(event: MouseEvent): void {
    const flow = this.flow!;
    const level = flow.levels - 1 - Math.round((event.offsetY - TOP) / this.step);
    const group = Math.round(
      ((event.offsetX - LEFT) * this.context.targets.size) / (this.width - LEFT - 12) - 0.5,
    );
    const inside =
      level >= 0 && level < flow.levels && group >= 0 && group < this.context.targets.size;
    this.at = inside ? [level, group] : null;
    this.canvas.style.cursor = inside ? "pointer" : "";
    this.context.actions.tip(inside ? event : null, this.sentence());
    this.draw();
  }

  private sentence(): string[] {
    if (!this.at) return [];
    const [level, group] = this.at;
    const { context } = this;
    const target = context.targets.label(context.targets.of[context.state.target]!);
    const { layers } = context.current.entry;
    return [
      `${isolated(context.targets.label(group))} at ${levelName(level, layers)}`,
      `${percent(this.flow!.mass[level]![group]!)} of ${target} passes here`,
    ];
  }

  private trace(): void {
    if (!this.at) return;
    const { node } = this.context.state;
    const same = node && node[0] === this.at[0] && node[1] === this.at[1];
    this.context.actions.set({ node: same ? null : [...this.at] });
  }

  private leave(): void {
    this.at = null;
    this.context.actions.tip(null, []);
    this.draw();
  }

  private walk(right: number, down: number): void {
    const { context } = this;
    const [level, group] = this.at ?? [
      this.flow!.levels - 1,
      context.targets.of[context.state.target]!,
    ];
    this.at = [
      within(level - down, this.flow!.levels),
      within(group + right, context.targets.size),
    ];
    context.actions.announce(this.sentence().join(", "));
    this.draw();
  }

  paint(painter: Painter, context: Context, width: number): number {
    if (!this.flow || this.canvas.hidden) return 0;
    this.width = width;
    this.painted(painter, context);
    const height = this.y(0) + FOOT;
    this.draw();
    return height;
  }

  rows(): string[][] {
    const { context } = this;
    const names = context.current.entry.layers;
    return [
      ["from", "source", "to", "target", "share of the target"],
      ...this.edges()
        .reverse()
        .map((edge) => [
          levelName(edge.level, names),
          context.targets.label(edge.source),
          levelName(edge.level + 1, names),
          context.targets.label(edge.target),
          edge.value.toPrecision(3),
        ]),
    ];
  }
}

function levelName(level: number, layers: number[]): string {
  return level === 0 ? "the input" : `layer ${layers[level - 1]}`;
}

/** The slider runs from 0.1 % to 50 % by equal factors. */
function fromSlider(value: number): number {
  return Number((0.001 * 500 ** (value / 100)).toPrecision(2));
}

function toSlider(threshold: number): number {
  return Math.round((Math.log(Math.max(threshold, 0.001) / 0.001) / Math.log(500)) * 100);
}
