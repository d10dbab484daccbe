// All heads of all layers as small maps; a click enters one.

import type { Context, View } from "../context";
import { canvasOf, h, isolated, percent, refill, tableBehind, within } from "../dom";
import { largest, ranked, type Measured } from "../measured";
import { prepared, type Painter } from "../painter";
import { mapScale, pixels } from "../pixels";

const LEFT = 58;
const TOP = 24;
const GAP = 6;
const MOST = 400; // groups on a side of a small map

export class HeadsView implements View {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly words = h("p", { class: "quiet" });
  private readonly table: HTMLDetailsElement;
  private context!: Context;
  /** The chosen measure, or one of the same text that has heads. */
  private shown!: Measured;
  private tile = 64;
  private pictures: HTMLCanvasElement[] = [];
  private key = "";
  private at: [number, number] | null = null; // layer, head
  private readonly whole: HTMLButtonElement;

  constructor() {
    this.canvas = canvasOf({
      over: (event) => this.over(event),
      leave: () => this.pointAt(null, null),
      choose: () => this.enter(),
      step: (right, down) => this.walk(right, down),
    });
    this.table = tableBehind("Heads", () => this.rows());
    this.whole = h(
      "button",
      { type: "button", onclick: () => this.context.actions.set({ head: null }) },
      "Back to whole layers",
    );
    this.element = h(
      "div",
      { class: "heads-view" },
      h("div", { class: "bar-line" }, this.words, this.whole),
      this.canvas,
      this.table,
    );
  }

  update(context: Context): void {
    this.context = context;
    const { current, measured } = context;
    const alike = (each: Measured) =>
      each.heads > 0 && each.targets === current.targets && each.sources === current.sources;
    this.shown = current.heads ? current : (measured.find(alike) ?? current);
    const none = this.shown.heads === 0;
    this.canvas.hidden = this.table.hidden = none;
    this.whole.hidden = context.state.head === null;
    if (none) {
      const dropped = current.entry.notes?.find((note) => note.includes("heads are left out"));
      this.words.textContent =
        dropped ??
        "This page has no maps of single heads. To add them, also pass " +
          `lens.measure("${current.entry.measure}", text, per_head=True).`;
      return;
    }
    const instead =
      this.shown === current
        ? ""
        : `The page has no single heads of ${context.name(current)}. ` +
          `These are the heads of ${context.name(this.shown)}. `;
    this.words.textContent =
      `${instead}Rows are layers, columns are heads. Each small map has targets as rows and ` +
      "sources as columns, shaded by its own largest share. Click a head to open it.";
    this.prepare();
    this.canvas.setAttribute(
      "aria-label",
      `${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. ` +
        "Arrow keys move, Enter opens a head.",
    );
    this.draw();
    refill(this.table, () => this.rows());
  }

  private prepare(): void {
    const { context, shown: current } = this;
    const { targets, sources, palette, state } = context;
    const key = [
      context.measured.indexOf(current),
      palette.dark,
      targets.size,
      sources.size,
      state.unit,
      state.hide,
    ].join(" ");
    if (key === this.key) return;
    this.key = key;
    const groups = [...new Set(current.held.map((p) => targets.of[p]!))]
      .sort((a, b) => a - b)
      .slice(0, MOST);
    this.pictures = current.entry.layers.flatMap((_, depth) =>
      Array.from({ length: current.heads }, (_, head) => {
        const all = new Float32Array(groups.length * sources.size);
        groups.forEach((group, row) =>
          all.set(current.incoming({ depth, head }, targets, group, sources), row * sources.size),
        );
        const scale = mapScale(all, sources.size, current.square && groups.length === sources.size);
        return pixels(palette, all, groups.length, sources.size, scale);
      }),
    );
  }

  private size(width: number): [number, number] {
    const { heads, entry } = this.shown;
    this.tile = Math.max(18, Math.min(132, (width - LEFT) / heads - GAP));
    return [LEFT + heads * (this.tile + GAP), TOP + entry.layers.length * (this.tile + GAP)];
  }

  private draw(): void {
    if (this.canvas.hidden) return;
    const [width, height] = this.size(this.element.clientWidth || 900);
    this.painted(prepared(this.canvas, width, height), this.context);
  }

  private painted(painter: Painter, context: Context): void {
    const { palette, state } = context;
    const { tile, shown: current } = this;
    const small = { size: 12, fill: palette.quiet };
    for (let head = 0; head < current.heads; head++)
      painter.text(
        LEFT + head * (tile + GAP) + tile / 2,
        TOP - 9,
        head === 0 ? "head 0" : String(head),
        { ...small, align: "center" },
      );
    current.entry.layers.forEach((number, layer) => {
      const y = TOP + layer * (tile + GAP);
      painter.text(LEFT - 10, y + tile / 2 + 4, layer === 0 ? `layer ${number}` : String(number), {
        ...small,
        align: "right",
      });
      for (let head = 0; head < current.heads; head++) {
        const x = LEFT + head * (tile + GAP);
        painter.image(this.pictures[layer * current.heads + head]!, x, y, tile, tile);
        const entered = current === context.current && state.head === head;
        const chosen = entered && state.depth === layer;
        const pointed = this.at?.[0] === layer && this.at[1] === head;
        painter.rect(
          x,
          y,
          tile,
          tile,
          null,
          chosen || pointed ? palette.ink : palette.line,
          chosen ? 3 : pointed ? 2 : 1,
        );
      }
    });
  }

  private over(event: MouseEvent): void {
    const head = Math.floor((event.offsetX - LEFT) / (this.tile + GAP));
    const layer = Math.floor((event.offsetY - TOP) / (this.tile + GAP));
    const { heads, entry } = this.shown;
    const inside = head >= 0 && layer >= 0 && head < heads && layer < entry.layers.length;
    this.pointAt(inside ? [layer, head] : null, event);
  }

  private pointAt(at: [number, number] | null, event: MouseEvent | null): void {
    this.at = at;
    this.canvas.style.cursor = at ? "pointer" : "";
    this.context.actions.tip(at ? event : null, this.sentence());
    this.draw();
  }

  private sentence(): string[] {
    if (!this.at) return [];
    const [layer, head] = this.at;
    const { context } = this;
    const values = context.incoming(this.shown, { depth: layer, head });
    const top = ranked(values, context.own).slice(0, 3);
    const target = context.targets.label(context.targetGroup);
    return [
      `Layer ${this.shown.entry.layers[layer]}, head ${head}`,
      ...top.map(
        ({ group, value }) =>
          `${isolated(context.sources.label(group))}: ${percent(value)} of ${isolated(target)}`,
      ),
    ];
  }

  private enter(): void {
    if (!this.at) return;
    const map = this.context.measured.indexOf(this.shown);
    this.context.actions.set({ map, depth: this.at[0], head: this.at[1], view: "map" });
  }

  private walk(right: number, down: number): void {
    const [layer, head] = this.at ?? [0, -1];
    const { entry, heads } = this.shown;
    this.at = [within(layer + down, entry.layers.length), within(head + right, heads)];
    this.context.actions.announce(this.sentence().join(", "));
    this.draw();
  }

  paint(painter: Painter, context: Context, width: number): number {
    if (!this.shown.heads) return 0;
    this.prepare();
    const [, height] = this.size(width);
    this.painted(painter, context);
    return height;
  }

  rows(): string[][] {
    const { context, shown: current } = this;
    const target = context.targets.label(context.targetGroup);
    const found = [["layer", "head", "target", "largest source", "share"]];
    current.entry.layers.forEach((number, depth) => {
      for (let head = 0; head < current.heads; head++) {
        const values = context.incoming(current, { depth, head });
        const top = ranked(values, context.own)[0];
        found.push([
          String(number),
          String(head),
          target,
          top ? context.sources.label(top.group) : "",
          largest(values, context.own).toPrecision(3),
        ]);
      }
    });
    return found;
  }
}
