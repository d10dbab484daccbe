// Speech: the share of each frame as a bar on a time axis.

import { css, shade } from "../colour";
import type { Context } from "../context";
import { h, percent } from "../dom";
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

  constructor() {
    this.canvas = h("canvas", {
      role: "img",
      "aria-label": "The share of each frame over time; the ranked list has the numbers",
      onmousemove: (event: MouseEvent) => this.over(event),
      onmouseleave: () => this.context?.actions.tip(null, []),
    });
    this.element = h("figure", { class: "strip" }, this.canvas);
  }

  show(context: Context, values: ArrayLike<number>, scale: number): void {
    if (!context.current.sources.seconds) return;
    Object.assign(this, { context, values, scale });
    const width = this.element.clientWidth || 640;
    this.painted(prepared(this.canvas, width, HEIGHT + AXIS), context, 0, 0, width);
  }

  private painted(painter: Painter, context: Context, x: number, y: number, width: number): void {
    const { palette } = context;
    const seconds = context.current.sources.seconds!;
    const bar = width / this.values.length;
    for (let i = 0; i < this.values.length; i++) {
      const t = this.scale > 0 ? this.values[i]! / this.scale : 0;
      const high = Math.max(1, Math.abs(t) * HEIGHT);
      const fill = css(shade(palette, 0.25 * Math.sign(t || 1) + 0.75 * t));
      painter.rect(
        x + i * bar,
        y + HEIGHT - high,
        Math.max(bar - (bar > 4 ? 1 : 0), 0.7),
        high,
        fill,
      );
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
    const { context } = this;
    if (!context) return;
    const at = Math.floor((event.offsetX / this.canvas.clientWidth) * this.values.length);
    const group = Math.max(0, Math.min(this.values.length - 1, at));
    context.actions.tip(event, [
      context.sources.label(group),
      `${percent(this.values[group]!)} of the target`,
    ]);
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
