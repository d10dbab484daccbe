// One thin heat row for each layer: the sources of the target. A click chooses the layer.

import { css, shade } from "../colour";
import type { Context } from "../context";
import { h, isolated, percent, refill, short, tableBehind } from "../dom";
import { joinedTo, largest, type Depth } from "../measured";
import { pixels } from "../pixels";
import { CanvasPainter, fitted, prepared, type Painter } from "../painter";

const LEFT = 64;
const GAP = 7; // above the row of all layers joined

interface Strip {
  depth: Depth;
  name: string;
  values: Float64Array;
}

const isSummary = (strip: Strip) => strip.depth === "all" || strip.depth === "mean";

export class Layers {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly table: HTMLDetailsElement;
  private readonly name = h("h2", {});
  private readonly other = h("button", {
    type: "button",
    class: "turn",
    onclick: () => this.turn(),
  });
  private strips: Strip[] = [];
  private context!: Context;
  private rowHeight = 18;
  private cell = 1;

  constructor() {
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "img",
      onmousemove: (e: MouseEvent) => this.over(e),
      onmouseleave: () => this.context.actions.tip(null, []),
      onclick: (e: MouseEvent) => this.choose(this.hit(e)?.strip ?? -1),
      onkeydown: (e: KeyboardEvent) => this.key(e),
    });
    this.table = tableBehind("Layers", () => this.rows());
    this.element = h(
      "section",
      { class: "layers", "aria-label": "Layer by layer" },
      h("div", { class: "layers-head" }, this.name, this.other),
      this.canvas,
      this.table,
    );
  }

  update(context: Context): void {
    this.context = context;
    const { current } = context;
    this.element.hidden = current.entry.layers.length < 2;
    if (this.element.hidden) return;
    const joined = this.joined();
    const depths: Depth[] = joined ? [...current.upTo] : current.entry.layers.map((_, i) => i);
    depths.push(...this.summaries(joined));
    this.strips = depths.map((depth) => ({
      depth,
      name:
        depth === "all" || depth === "mean"
          ? this.summaryName(depth)
          : String(current.entry.layers[joinedTo(depth) ?? Number(depth)]),
      values: context.incoming(current, {
        depth,
        head: typeof depth === "number" ? context.state.head : null,
      }),
    }));
    const width = this.element.clientWidth || 640;
    const height = this.height(width);
    this.draw(prepared(this.canvas, width, height), width);
    const label = context.targets.label(context.targetGroup);
    const when = joined ? " up to each layer" : " in each layer";
    this.name.replaceChildren("Sources of ", h("b", {}, short(label)), when);
    this.other.hidden = current.upTo.length === 0;
    this.other.textContent = joined ? "Single layers" : "Up to each layer";
    this.canvas.setAttribute(
      "aria-label",
      `Sources of ${isolated(label)}${when}, as a heat map: ${this.strips.length} rows, ` +
        `${context.sources.size} columns. Arrow keys up and down choose a layer.`,
    );
    refill(this.table, () => this.rows());
  }

  private summaryName(depth: Depth): string {
    const how = this.context.current.entry.joined?.how.replace(/\(.*/, "") ?? "";
    return depth === "mean" ? "mean" : how || "all";
  }

  /** The last rows: all layers as one, as single layers or joined layers are summed up, and what
   * is chosen. */
  private summaries(joined: boolean): Depth[] {
    const { current, state } = this.context;
    const possible = (["mean", "all"] as Depth[]).filter((each) => current.depths.includes(each));
    const usual = joined ? "all" : possible[0];
    return possible.filter((each) => each === usual || each === state.depth);
  }

  /** Are the rows those of the layers joined? So they are if one of these is chosen. */
  private joined(): boolean {
    const { state, current } = this.context;
    if (typeof state.depth === "number" || !current.upTo.length) return false;
    return state.rows === "upto" || joinedTo(state.depth) !== null;
  }

  /** The same layer, by itself or with all before it. */
  private turn(): void {
    const { state, actions } = this.context;
    const joined = this.joined();
    const { depth } = state;
    const layer = typeof depth === "number" ? depth : joinedTo(depth);
    const last = this.context.current.entry.layers.length - 1;
    const turned: Depth = layer === null || layer === last ? "all" : `to${layer}`;
    actions.set({
      rows: joined ? "each" : "upto",
      head: null,
      depth: joined ? (layer ?? this.context.current.defaultDepth) : turned,
    });
  }

  private height(width: number): number {
    const count = this.strips.length;
    this.rowHeight = count > 40 ? 7 : count > 16 ? 11 : 18;
    this.cell = (width - LEFT) / this.context.sources.size;
    return this.top(count) + this.labels(width);
  }

  private top(strip: number): number {
    const first = this.strips.findIndex(isSummary);
    return strip * this.rowHeight + (first >= 0 && strip >= first ? GAP : 0);
  }

  /** Room for the labels below: none if columns are too narrow to name. */
  private labels(width: number): number {
    if (this.cell < 13) return this.context.current.sources.seconds ? 18 : 4;
    return this.slanted(width) ? 74 : 20;
  }

  private slanted(width: number): boolean {
    const painter = new CanvasPainter(this.canvas.getContext("2d")!);
    const cell = (width - LEFT) / this.context.sources.size;
    return this.context.sources.groups.some(
      (_, i) => painter.width(this.context.sources.label(i), 12) > cell - 4,
    );
  }

  private draw(painter: Painter, width: number, y = 0): void {
    const { context, strips, rowHeight } = this;
    const { palette, own, state } = context;
    // All layers as one may hold much larger shares than single layers: they have their own scale.
    const single = strips.filter((strip) => !isSummary(strip));
    const common = Math.max(1e-12, ...single.map((strip) => largest(strip.values, own)));
    strips.forEach((strip, row) => {
      const top = y + this.top(row);
      const chosen = strip.depth === state.depth;
      const scale = isSummary(strip) ? Math.max(1e-12, largest(strip.values, own)) : common;
      const step = rowHeight >= 13 ? 1 : rowHeight >= 10 ? 2 : 4;
      if (row % step === 0 || chosen || isSummary(strip))
        painter.text(
          LEFT - 10,
          top + rowHeight / 2 + 4,
          `${row === 0 ? (this.joined() ? "up to " : "layer ") : ""}${strip.name}`,
          {
            size: 12,
            fill: chosen ? palette.ink : palette.quiet,
            weight: chosen ? 700 : 400,
            align: "right",
          },
        );
      this.cells(painter, strip.values, own, scale, top);
      if (chosen)
        painter.rect(
          LEFT - 1,
          top - 1,
          width - LEFT + 1,
          rowHeight + 0.5,
          null,
          palette.ink,
          1.5,
          3,
        );
    });
    this.drawColumns(painter, width, y);
  }

  /** One cell for each group. Of many narrow ones each pixel shows the largest of its groups, as
   * a picture: thousands of rectangles would not follow the pointer. */
  private cells(painter: Painter, values: Float64Array, own: number, scale: number, top: number) {
    const { context, cell, rowHeight } = this;
    const clipped = (value: number) => Math.max(-1, Math.min(1, value / scale));
    if (cell >= 6) {
      values.forEach((value, i) => {
        const fill = css(shade(context.palette, clipped(value)));
        painter.rect(LEFT + i * cell, top, cell - 1, rowHeight - 1.5, fill);
      });
      return;
    }
    const per = Math.max(1, Math.round(1.5 / cell));
    const pooled = new Float32Array(Math.ceil(values.length / per));
    values.forEach((value, i) => {
      const at = Math.floor(i / per);
      if (i !== own && Math.abs(value) > Math.abs(pooled[at]!)) pooled[at] = value;
    });
    const picture = pixels(context.palette, pooled, 1, pooled.length, scale);
    painter.image(picture, LEFT, top, cell * per * pooled.length, rowHeight - 1.5);
  }

  private drawColumns(painter: Painter, width: number, y: number): void {
    const { context, cell } = this;
    const { palette, own, sources } = context;
    const bottom = y + this.top(this.strips.length) - 1;
    const seconds = context.current.sources.seconds;
    if (seconds) {
      const step = tick(seconds * sources.size);
      for (let at = 0; at <= seconds * sources.size; at += step)
        painter.text(LEFT + (at / seconds) * cell, bottom + 14, `${Number(at.toFixed(2))} s`, {
          size: 11,
          fill: palette.quiet,
          align: at + step > seconds * sources.size ? "right" : at ? "center" : "left",
        });
      return;
    }
    if (own >= 0 && cell >= 3)
      painter.rect(
        LEFT + own * cell - 0.5,
        y - 0.5,
        cell,
        bottom - y + 0.5,
        null,
        palette.ink,
        1.5,
        2,
      );
    if (cell < 13) return;
    const slanted = this.slanted(width);
    sources.groups.forEach((_, i) => {
      const x = LEFT + (i + 0.5) * cell;
      const style = {
        size: 12,
        fill: i === own ? palette.ink : palette.quiet,
        weight: i === own ? 700 : 400,
      };
      const label = fitted(painter, sources.label(i), 12, slanted ? 88 : cell);
      if (slanted)
        painter.text(x + 4, bottom + 12, label, { ...style, align: "right", rotate: -45 });
      else painter.text(x, bottom + 15, label, { ...style, align: "center" });
    });
  }

  private hit(event: MouseEvent): { strip: number; group: number } | null {
    const strip = this.strips.findIndex(
      (_, i) => event.offsetY >= this.top(i) && event.offsetY < this.top(i) + this.rowHeight,
    );
    const group = Math.floor((event.offsetX - LEFT) / this.cell);
    return strip < 0
      ? null
      : { strip, group: group >= 0 && group < this.context.sources.size ? group : -1 };
  }

  private over(event: MouseEvent): void {
    const found = this.hit(event);
    this.canvas.style.cursor = found ? "pointer" : "";
    if (!found || found.group < 0) return this.context.actions.tip(null, []);
    const { strip, group } = found;
    const { context } = this;
    const value = this.strips[strip]!.values[group]!;
    const target = context.targets.label(context.targetGroup);
    context.actions.tip(event, [
      `${isolated(context.sources.label(group))}: ${percent(value)} of ${isolated(target)}`,
      context.current.depthName(this.strips[strip]!.depth),
    ]);
  }

  private choose(strip: number): void {
    const depth = this.strips[strip]?.depth;
    if (depth !== undefined)
      this.context.actions.set({
        depth,
        head: typeof depth === "number" ? this.context.state.head : null,
      });
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = this.strips.findIndex((strip) => strip.depth === this.context.state.depth);
    const next = Math.max(0, Math.min(this.strips.length - 1, now + step));
    this.choose(next);
    this.context.actions.announce(this.context.current.depthName(this.strips[next]!.depth));
  }

  paint(painter: Painter, x: number, y: number, width: number): number {
    if (this.element.hidden) return 0;
    void x;
    const height = this.height(width);
    this.draw(painter, width, y);
    return height;
  }

  rows(): string[][] {
    const { sources } = this.context;
    return [
      ["source", ...this.strips.map((strip) => this.context.current.depthName(strip.depth))],
      ...sources.groups.map((_, i) => [
        sources.label(i),
        ...this.strips.map((strip) => strip.values[i]!.toPrecision(3)),
      ]),
    ];
  }
}

/** A round step for about six marks on a time axis. */
export function tick(length: number): number {
  const rough = length / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10) * power;
}
