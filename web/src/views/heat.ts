// Heat over the pictures of a text: each patch shaded by its score, in the picture of the user.

import { css, LIGHT, shade } from "../colour";
import type { Context } from "../context";
import { canvasOf, h, percent } from "../dom";
import { prepared, type Painter } from "../painter";
import type { Grid, TiledPicture } from "../payload";
import { greyed } from "./picture";

const LONGEST = 360; // pixels of a side

interface Patch {
  token: number;
  row: number;
  column: number;
  grid: Grid;
  /** In parts of the picture. */
  box: [number, number, number, number];
}

function patchesOf({ grids }: TiledPicture): Patch[] {
  return grids.flatMap((grid) => {
    const [left, top, right, bottom] = grid.box;
    const [wide, tall] = [(right - left) / grid.columns, (bottom - top) / grid.rows];
    return Array.from({ length: grid.rows * grid.columns }, (_, i): Patch => {
      const [row, column] = [Math.floor(i / grid.columns), i % grid.columns];
      const [x, y] = [left + column * wide, top + row * tall];
      const box: Patch["box"] = [x, y, x + wide, y + tall];
      return { token: grid.first + row * grid.stride + column, row, column, grid, box };
    });
  });
}

/** A score for the area that it is on: a tile has small patches, an overview large ones. */
const density = (value: number, [left, top, right, bottom]: Patch["box"]): number =>
  value / Math.max(1e-9, (right - left) * (bottom - top));

/** The largest density of several pictures, by which all of them are shaded. */
export function heatScale(pictures: HeatPicture[], value: (token: number) => number): number {
  let found = 0;
  for (const { patches } of pictures)
    for (const { token, box } of patches)
      found = Math.max(found, Math.abs(density(value(token), box)));
  return found;
}

export class HeatPicture {
  readonly element: HTMLElement;
  readonly patches: Patch[];
  private readonly canvas: HTMLCanvasElement;
  private readonly caption = h("figcaption", {});
  private readonly image = new Image();
  private grey: HTMLCanvasElement | null = null;
  private context: Context | null = null;
  private value: (token: number) => number = () => 0;
  private scale = 0;
  private at = -1; // the patch that is pointed at

  constructor(readonly picture: TiledPicture) {
    this.patches = patchesOf(picture);
    this.canvas = canvasOf({
      over: (event) => this.point(this.hit(event), event),
      leave: () => this.point(-1, null),
      choose: () => undefined,
      step: (right, down) => this.walk(right, down),
    });
    this.element = h("figure", { class: "heat" }, this.canvas, this.caption);
    this.image.addEventListener("load", () => {
      this.grey = greyed(this.image);
      this.draw();
    });
    this.image.src = picture.src;
  }

  /** Shades the patches by a score of each token; `scale` is that of all pictures. */
  show(context: Context, value: (token: number) => number, scale: number): void {
    Object.assign(this, { context, value, scale });
    const total = this.total;
    this.caption.textContent = `${this.picture.name} · ${percent(total)} of all sources`;
    this.canvas.setAttribute(
      "aria-label",
      `${this.picture.name}, ${percent(total)} of all sources, its patches shaded by their share. ` +
        "Arrow keys move from patch to patch.",
    );
    this.draw();
  }

  get total(): number {
    const tokens = new Set(this.patches.map(({ token }) => token));
    let found = 0;
    for (const token of tokens) found += this.value(token);
    return found;
  }

  private size(room: number): [number, number] {
    const ratio = (this.image.naturalHeight || 1) / (this.image.naturalWidth || 1);
    const wide = Math.min(room, LONGEST, LONGEST / ratio);
    return [wide, wide * ratio];
  }

  draw(): void {
    if (!this.context || !this.image.naturalWidth) return;
    const [width, height] = this.size(this.element.parentElement?.clientWidth || LONGEST);
    this.painted(prepared(this.canvas, width, height), 0, 0, width, height);
  }

  private painted(painter: Painter, x: number, y: number, width: number, height: number): void {
    painter.image(this.grey ?? this.image, x, y, width, height, true);
    this.patches.forEach(({ token, box }, i) => {
      const t = this.scale > 0 ? density(this.value(token), box) / this.scale : 0;
      const alpha = Math.min(0.85, Math.abs(t) * 0.85);
      const colour = css(shade(LIGHT, t < 0 ? -0.75 : 0.75)).replace(")", `, ${alpha})`);
      const [left, top] = [Math.max(0, box[0]), Math.max(0, box[1])];
      const [right, bottom] = [Math.min(1, box[2]), Math.min(1, box[3])];
      if (right <= left || bottom <= top) return; // padding
      const place = [x + left * width, y + top * height] as const;
      const size = [(right - left) * width, (bottom - top) * height] as const;
      painter.rect(...place, ...size, colour);
      if (i === this.at) painter.rect(...place, ...size, null, "#ffffff", 1.5);
    });
  }

  /** The smallest patch under the pointer: that of a tile before that of the overview. */
  private hit(event: MouseEvent): number {
    const x = event.offsetX / this.canvas.clientWidth;
    const y = event.offsetY / this.canvas.clientHeight;
    let best = -1;
    let area = Number.POSITIVE_INFINITY;
    this.patches.forEach(({ box: [left, top, right, bottom] }, i) => {
      const size = (right - left) * (bottom - top);
      if (x >= left && x < right && y >= top && y < bottom && size < area) [best, area] = [i, size];
    });
    return best;
  }

  private words(): string[] {
    const patch = this.patches[this.at];
    if (!patch) return [];
    const tiles = this.picture.grids.length;
    const tile =
      tiles > 1 ? `, grid ${this.picture.grids.indexOf(patch.grid) + 1} of ${tiles}` : "";
    return [
      `${this.picture.name} patch (${patch.row}, ${patch.column})${tile}`,
      `${percent(this.value(patch.token))} of all sources`,
    ];
  }

  private point(at: number, event: MouseEvent | null): void {
    this.at = at;
    this.context?.actions.tip(at < 0 ? null : event, this.words());
    this.draw();
  }

  private walk(right: number, down: number): void {
    const now = this.patches[this.at];
    const grid = now?.grid ?? this.picture.grids[0]!;
    const row = Math.max(0, Math.min(grid.rows - 1, (now?.row ?? 0) + (now ? down : 0)));
    const column = Math.max(0, Math.min(grid.columns - 1, (now?.column ?? 0) + (now ? right : 0)));
    const next = this.patches.findIndex(
      (each) => each.grid === grid && each.row === row && each.column === column,
    );
    this.point(next, null);
    this.context?.actions.announce(this.words().join(", "));
  }

  /** Draws it into a file and returns its height. */
  paint(painter: Painter, x: number, y: number, room: number): number {
    const [width, height] = this.size(room);
    this.painted(painter, x, y, width, height);
    return height;
  }
}
