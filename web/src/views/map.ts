// One map: targets down, sources across. Only what is in sight is drawn, so that it can be large.

import { css, shade } from "../colour";
import type { Context, View } from "../context";
import { canvasOf, h, isolated, percent, refill, tableBehind, within } from "../dom";
import type { Grouping } from "../groups";
import { fitted, prepared, type Painter } from "../painter";
import { mapScale, pixels } from "../pixels";
import { rampLegend } from "./ramp";

const MOST = 2500; // groups on a side
const LABELS = 108; // pixels
const FOOT = 10;

export class MapView implements View {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly scroller: HTMLElement;
  private readonly spacer = h("div", { class: "spacer" });
  private readonly words = h("p", { class: "quiet" });
  private readonly legend = h("p", { class: "legend" });
  private readonly table: HTMLDetailsElement;
  private context!: Context;
  private values = new Float32Array();
  private picture: HTMLCanvasElement | null = null;
  private key = "";
  private cell = 16;
  private zoom = 1;
  private at: [number, number] | null = null; // row, column

  constructor() {
    this.canvas = canvasOf({
      over: (event) => this.over(event),
      leave: () => this.moved(null, null),
      choose: () => this.choose(),
      step: (right, down) => this.walk(right, down),
    });
    this.scroller = h(
      "div",
      { class: "scroller", onscroll: () => this.draw() },
      this.canvas,
      this.spacer,
    );
    this.table = tableBehind("Map", () => this.rows());
    const zoom = h(
      "label",
      { class: "field" },
      h("span", {}, "Zoom"),
      h("input", {
        type: "range",
        min: "1",
        max: "12",
        step: "0.5",
        value: "1",
        oninput: (e: Event) => {
          this.zoom = Number((e.target as HTMLInputElement).value);
          this.layout();
        },
      }),
    );
    this.element = h(
      "div",
      { class: "map-view" },
      h("div", { class: "bar-line" }, this.words, zoom),
      this.legend,
      this.scroller,
      this.table,
    );
  }

  update(context: Context): void {
    this.context = context;
    const { targets, sources, current, state } = context;
    const rows = this.held();
    if (Math.max(rows.length, sources.size) > MOST) {
      this.words.textContent =
        `This map is too large to show (${rows.length} × ${sources.size} cells). ` +
        "Choose words or segments above.";
      this.scroller.hidden = this.legend.hidden = true;
      return;
    }
    this.scroller.hidden = this.legend.hidden = false;
    const key = [
      state.map,
      state.depth,
      state.head,
      context.palette.dark,
      targets.size,
      sources.size,
      state.unit,
      state.open,
      state.hide,
    ].join(" ");
    if (key !== this.key) {
      this.key = key;
      const all = new Float32Array(rows.length * sources.size);
      rows.forEach((group, row) =>
        all.set(current.incoming(context.choice, targets, group, sources), row * sources.size),
      );
      this.values = all;
      const scale = mapScale(all, sources.size, current.square && rows.length === sources.size);
      this.picture = pixels(context.palette, all, rows.length, sources.size, scale);
      this.words.textContent =
        "Rows are targets, columns are sources. Click a row to choose its target.";
      this.legend.replaceChildren(
        ...rampLegend(context.palette, scale, current.entry.signed),
        h("span", { class: "quiet" }, legendWords(current.square)),
      );
    }
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${rows.length} targets by ${sources.size} sources. ` +
        "Arrow keys move, Enter chooses the target.",
    );
    this.layout();
    refill(this.table, () => this.rows());
  }

  /** The groups that have rows. */
  private held(): number[] {
    const { targets, current } = this.context;
    const found = new Set(current.held.map((position) => targets.of[position]!));
    return [...found].sort((a, b) => a - b);
  }

  private layout(): void {
    if (this.scroller.hidden) return;
    const { sources } = this.context;
    const rows = this.held().length;
    const room = Math.max(200, this.scroller.clientWidth || 900) - LABELS - 16;
    const tall = Math.max(240, window.innerHeight * 0.7) - LABELS;
    const fits = Math.min(44, room / sources.size, Math.max(tall / rows, 7));
    this.cell = Math.max(fits, 1) * this.zoom;
    const [w, hgt] = [sources.size * this.cell + LABELS + FOOT, rows * this.cell + LABELS + FOOT];
    const most = Math.max(320, window.innerHeight * 0.78);
    this.scroller.style.height = `${Math.min(hgt + 18, most)}px`;
    this.spacer.style.width = `${w}px`;
    this.spacer.style.height = `${hgt}px`;
    this.draw();
  }

  private draw(): void {
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    if (!width || !this.picture) return;
    const painter = prepared(this.canvas, width, height);
    this.painted(
      painter,
      this.context,
      this.cell,
      this.scroller.scrollLeft,
      this.scroller.scrollTop,
      width,
      height,
    );
  }

  private painted(
    painter: Painter,
    context: Context,
    cell: number,
    left: number,
    top: number,
    width: number,
    height: number,
  ): void {
    const { palette, sources, targets } = context;
    const rows = this.held();
    painter.image(
      this.picture!,
      LABELS - left,
      LABELS - top,
      sources.size * cell,
      rows.length * cell,
    );
    const chosen = rows.indexOf(context.targets.of[context.state.target]!);
    if (chosen >= 0)
      painter.rect(
        LABELS - left,
        LABELS - top + chosen * cell,
        sources.size * cell,
        Math.max(cell, 2),
        null,
        palette.ink,
        1.5,
      );
    if (this.at) {
      const [row, column] = this.at;
      painter.rect(
        LABELS - left + column * cell,
        LABELS - top + row * cell,
        Math.max(cell, 2),
        Math.max(cell, 2),
        null,
        palette.ink,
        2,
      );
    }
    painter.rect(0, 0, LABELS - 2, height, palette.paper);
    painter.rect(0, 0, width, LABELS - 2, palette.paper);
    const step = Math.max(1, Math.ceil(12 / cell));
    this.names(
      painter,
      targets,
      rows,
      step,
      cell,
      (i, label, bold) => {
        const y = LABELS - top + (i + 0.5) * cell;
        if (y > LABELS - 4 && y < height)
          painter.text(LABELS - 8, y + 4, fitted(painter, label, 12, LABELS - 14), {
            size: 12,
            align: "right",
            fill: bold ? palette.ink : palette.quiet,
            weight: bold ? 700 : 400,
          });
      },
      this.at?.[0] ?? -1,
      chosen,
    );
    this.names(
      painter,
      sources,
      sources.groups.map((_, i) => i),
      step,
      cell,
      (i, label, bold) => {
        const x = LABELS - left + (i + 0.5) * cell;
        if (x > LABELS - 4 && x < width)
          painter.text(x + 4, LABELS - 8, fitted(painter, label, 12, LABELS + 6), {
            size: 12,
            rotate: -60,
            fill: bold ? palette.ink : palette.quiet,
            weight: bold ? 700 : 400,
          });
      },
      this.at?.[1] ?? -1,
      -1,
    );
    painter.rect(0, 0, LABELS - 14, LABELS - 30, palette.paper);
  }

  private names(
    painter: Painter,
    grouping: Grouping,
    groups: number[],
    step: number,
    cell: number,
    put: (i: number, label: string, bold: boolean) => void,
    at: number,
    chosen: number,
  ): void {
    void painter;
    groups.forEach((group, i) => {
      const near = at >= 0 && Math.abs(i - at) * cell < 12 && i !== at;
      if (i === at || i === chosen || (i % step === 0 && !near))
        put(i, grouping.label(group), i === at || i === chosen);
    });
  }

  private over(event: MouseEvent): void {
    const column = Math.floor((event.offsetX - LABELS + this.scroller.scrollLeft) / this.cell);
    const row = Math.floor((event.offsetY - LABELS + this.scroller.scrollTop) / this.cell);
    const inside =
      event.offsetX >= LABELS &&
      event.offsetY >= LABELS &&
      row < this.held().length &&
      column < this.context.sources.size;
    this.moved(inside ? [row, column] : null, event);
  }

  private moved(at: [number, number] | null, event: MouseEvent | null): void {
    this.at = at;
    const words = this.sentence();
    this.context.actions.tip(at ? event : null, words);
    this.canvas.style.cursor = at ? "pointer" : "";
    this.draw();
  }

  private sentence(): string[] {
    if (!this.at) return [];
    const { context } = this;
    const [row, column] = this.at;
    const group = this.held()[row]!;
    const value = this.values[row * context.sources.size + column]!;
    const total = context.current.total(context.choice, context.targets.groups[group]!.start);
    const found = [
      `${isolated(context.sources.label(column))} → ${isolated(context.targets.label(group))}`,
      percent(value),
    ];
    if (total !== null && context.state.unit === "tokens")
      found.push(`score ${(value * total).toPrecision(3)}`);
    return found;
  }

  private choose(): void {
    if (!this.at) return;
    const { start, stop } = this.context.targets.groups[this.held()[this.at[0]]!]!;
    for (let at = start; at < stop; at++)
      if (this.context.current.holds(at))
        return this.context.actions.set({ target: at, node: null });
  }

  private walk(right: number, down: number): void {
    const [row, column] = this.at ?? [0, -1];
    this.at = [
      within(row + down, this.held().length),
      within(column + right, this.context.sources.size),
    ];
    this.context.actions.announce(this.sentence().join(", "));
    this.draw();
  }

  paint(painter: Painter, context: Context, width: number): number {
    const { sources } = context;
    const rows = this.held().length;
    const cell = Math.min(28, Math.max(1, (width - LABELS) / sources.size));
    const at = this.at;
    this.at = null;
    const height = rows * cell + LABELS;
    if (sources.size * rows <= 4000) {
      this.painted(painter, context, cell, 0, 0, width, height + 2);
      this.cells(painter, context, cell, rows);
      const chosen = this.held().indexOf(context.targets.of[context.state.target]!);
      const [top, wide] = [LABELS + chosen * cell, sources.size * cell];
      if (chosen >= 0) painter.rect(LABELS, top, wide, cell, null, context.palette.ink, 1.5);
    } else this.painted(painter, context, cell, 0, 0, width, height + 2);
    this.at = at;
    return height + FOOT;
  }

  /** Cells one by one, so that an SVG file stays sharp. */
  private cells(painter: Painter, context: Context, cell: number, rows: number): void {
    const columns = context.sources.size;
    const scale = mapScale(this.values, columns, context.current.square && rows === columns);
    for (let i = 0; i < this.values.length; i++) {
      const t = Math.max(-1, Math.min(1, this.values[i]! / scale));
      painter.rect(
        LABELS + (i % columns) * cell,
        LABELS + Math.floor(i / columns) * cell,
        cell - 0.5,
        cell - 0.5,
        css(shade(context.palette, t)),
      );
    }
  }

  rows(): string[][] {
    const { context } = this;
    const columns = context.sources.size;
    return [
      ["target", ...context.sources.groups.map((_, i) => context.sources.label(i))],
      ...this.held().map((group, row) => [
        context.targets.label(group),
        ...Array.from(this.values.subarray(row * columns, (row + 1) * columns), (v) =>
          v.toPrecision(3),
        ),
      ]),
    ];
  }
}

const legendWords = (square: boolean): string =>
  `share of the target${square ? " · the largest share off the diagonal has the strongest colour" : ""}`;
