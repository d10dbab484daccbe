// Speech: the share of each frame as a bar on a time axis.

import { css, shade } from "../colour";
import type { Context } from "../context";
import { canvasOf, h, percent, within } from "../dom";
import { prepared, type Painter } from "../painter";
import { tick } from "./layers";

const HEIGHT = 120;
const AXIS = 22;

export class TimeStrip {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private context: Context | null = null;
  private values: ArrayLike<number> = [];
  private scale = 0;
  private at: number | null = null; // the frame that is pointed at

  constructor() {
    this.canvas = canvasOf({
      over: (event) => this.over(event),
      leave: () => this.pointAt(null, null),
      choose: () => this.choose(),
      step: (right) => this.walk(right),
    });
    this.canvas.setAttribute(
      "aria-label",
      "The share of each frame over time; the ranked list has the numbers. " +
        "Arrow keys move, Enter chooses a frame.",
    );
    this.element = h("figure", { class: "strip" }, this.canvas);
  }

  show(context: Context, values: ArrayLike<number>, scale: number): void {
    if (!context.current.sources.seconds) return;
    Object.assign(this, { context, values, scale });
    this.draw();
  }

  private draw(): void {
    if (!this.context) return;
    const width = this.element.clientWidth || 640;
    this.painted(prepared(this.canvas, width, HEIGHT + AXIS), this.context, 0, 0, width);
  }

  private painted(painter: Painter, context: Context, x: number, y: number, width: number): void {
    const { palette } = context;
    const seconds = context.current.sources.seconds!;
    const bar = width / this.values.length;
    for (let i = 0; i < this.values.length; i++) {
      const t = this.scale > 0 ? this.values[i]! / this.scale : 0;
      const high = Math.max(1, Math.abs(t) * HEIGHT);
      const fill = css(shade(palette, 0.25 * Math.sign(t || 1) + 0.75 * t));
      const wide = Math.max(bar - (bar > 4 ? 1 : 0), 0.7);
      if (i === context.own) painter.rect(x + i * bar - 1, y, wide + 2, HEIGHT, null, palette.ink);
      else if (i === this.at) painter.rect(x + i * bar, y, wide, HEIGHT, palette.band);
      if (i !== context.own) painter.rect(x + i * bar, y + HEIGHT - high, wide, high, fill);
    }
    painter.rect(x, y + HEIGHT, width, 1, palette.quiet);
    const length = seconds * this.values.length;
    const step = tick(length);
    for (let at = 0; at <= length + 1e-9; at += step)
      painter.text(x + (at / length) * width, y + HEIGHT + 16, `${Number(at.toFixed(2))} s`, {
        size: 12,
        fill: palette.quiet,
        align: at === 0 ? "left" : at + step > length ? "right" : "center",
      });
  }

  private over(event: MouseEvent): void {
    const at = Math.floor((event.offsetX / this.canvas.clientWidth) * this.values.length);
    this.pointAt(within(at, this.values.length), event);
  }

  private pointAt(at: number | null, event: MouseEvent | null): void {
    this.at = at;
    this.context?.actions.tip(event, this.words());
    this.draw();
  }

  private words(): string[] {
    const { context, at } = this;
    if (!context || at === null) return [];
    return [context.sources.label(at), `${percent(this.values[at]!)} of the target`];
  }

  private choose(): void {
    const { context, at } = this;
    if (!context || at === null || !context.current.square) return;
    const { start } = context.sources.groups[at]!;
    if (context.current.holds(start)) context.actions.set({ target: start, node: null });
  }

  private walk(right: number): void {
    this.pointAt(within(this.at === null ? 0 : this.at + right, this.values.length), null);
    this.context?.actions.announce(this.words().join(", "));
  }

  paint(
    painter: Painter,
    context: Context,
    x: number,
    y: number,
    width: number,
    values: ArrayLike<number>,
    scale: number,
  ): number {
    Object.assign(this, { values, scale });
    this.painted(painter, context, x, y, width);
    return HEIGHT + AXIS;
  }
}
