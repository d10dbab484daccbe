// Patches over the picture: each shaded by its share, the target outlined.

import { css, LIGHT, shade } from "../colour";
import type { Context } from "../context";
import { canvasOf, h, percent, within } from "../dom";
import { prepared, type Painter } from "../painter";

const LONGEST = 420; // pixels of a side: the layers below must be in sight

export class PatchPicture {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly picture = new Image();
  private grey: HTMLCanvasElement | null = null;
  private context: Context | null = null;
  private values: ArrayLike<number> = [];
  private scale = 0;
  private at: number | null = null; // the token of the patch that is pointed at

  constructor() {
    this.canvas = canvasOf({
      over: (event) => this.pointAt(this.patch(event), event),
      leave: () => this.pointAt(null, null),
      choose: () => this.choose(),
      step: (right, down) => this.walk(right, down),
    });
    this.canvas.setAttribute(
      "aria-label",
      "The picture, its patches shaded by their share; the ranked list has the numbers. " +
        "Arrow keys move, Enter chooses a patch.",
    );
    this.element = h("figure", { class: "picture" }, this.canvas);
    this.picture.addEventListener("load", () => {
      this.grey = greyed(this.picture);
      this.draw();
    });
  }

  show(context: Context, values: ArrayLike<number>, scale: number): void {
    const { image } = context.payload;
    if (!image) return;
    Object.assign(this, { context, values, scale });
    if (this.picture.src !== image.src) this.picture.src = image.src;
    this.draw();
  }

  private size(width: number): [number, number] {
    const ratio = (this.picture.naturalHeight || 1) / (this.picture.naturalWidth || 1);
    const wide = Math.min(width, LONGEST, LONGEST / ratio);
    return [wide, wide * ratio];
  }

  private draw(): void {
    if (!this.context || !this.picture.naturalWidth) return;
    const [width, height] = this.size(this.element.clientWidth || 420);
    this.painted(prepared(this.canvas, width, height), this.context, 0, 0, width, height);
  }

  private painted(
    painter: Painter,
    context: Context,
    x: number,
    y: number,
    width: number,
    height: number,
  ): void {
    const { rows, columns, first } = context.payload.image!;
    const { sources, own } = context;
    painter.image(this.grey ?? this.picture, x, y, width, height, true);
    const [w, h] = [width / columns, height / rows];
    for (let patch = 0; patch < rows * columns; patch++) {
      const group = sources.of[first + patch];
      if (group === undefined) break;
      const t = this.scale > 0 ? this.values[group]! / this.scale : 0;
      const [px, py] = [x + (patch % columns) * w, y + Math.floor(patch / columns) * h];
      const alpha = Math.min(0.85, Math.abs(t) * 0.85);
      const colour = css(shade(LIGHT, t < 0 ? -0.75 : 0.75)).replace(")", `, ${alpha})`);
      painter.rect(px, py, w, h, colour);
      if (group === own) painter.rect(px + 1, py + 1, w - 2, h - 2, null, "#ffffff", 3);
      else if (first + patch === this.at) painter.rect(px, py, w, h, null, "#ffffff", 1.5);
    }
  }

  private patch(event: MouseEvent): number | null {
    const { context } = this;
    if (!context) return null;
    const { rows, columns, first } = context.payload.image!;
    const column = Math.floor((event.offsetX / this.canvas.clientWidth) * columns);
    const row = Math.floor((event.offsetY / this.canvas.clientHeight) * rows);
    return first + row * columns + column;
  }

  private pointAt(at: number | null, event: MouseEvent | null): void {
    this.at = at;
    this.context?.actions.tip(event, this.words());
    this.draw();
  }

  private words(): string[] {
    const { context, at } = this;
    if (!context || at === null) return [];
    const { columns, first } = context.payload.image!;
    const group = context.sources.of[at] ?? 0;
    const place = `row ${Math.floor((at - first) / columns)}, column ${(at - first) % columns}`;
    return [`Patch in ${place}`, `${percent(this.values[group] ?? 0)} of the target`];
  }

  private choose(): void {
    const { context, at } = this;
    if (context && at !== null && context.current.square && context.current.holds(at))
      context.actions.set({ target: at, node: null });
  }

  private walk(right: number, down: number): void {
    const { context } = this;
    if (!context) return;
    const { rows, columns, first } = context.payload.image!;
    const place = this.at === null ? 0 : this.at - first;
    const column = within((place % columns) + (this.at === null ? 0 : right), columns);
    const row = within(Math.floor(place / columns) + (this.at === null ? 0 : down), rows);
    this.pointAt(first + row * columns + column, null);
    context.actions.announce(this.words().join(", "));
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
    const [w, h] = this.size(width);
    this.painted(painter, context, x, y, w, h);
    return h;
  }
}

/** Without colours, so that the shades over it are the only ones. */
export function greyed(picture: HTMLImageElement): HTMLCanvasElement {
  const found = document.createElement("canvas");
  found.width = picture.naturalWidth;
  found.height = picture.naturalHeight;
  const pen = found.getContext("2d")!;
  pen.drawImage(picture, 0, 0);
  const pixels = pen.getImageData(0, 0, found.width, found.height);
  for (let i = 0; i < pixels.data.length; i += 4) {
    const [r, g, b] = pixels.data.subarray(i, i + 3);
    pixels.data.fill(0.3 * r! + 0.59 * g! + 0.11 * b!, i, i + 3);
  }
  pen.putImageData(pixels, 0, 0);
  return found;
}
