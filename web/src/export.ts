// What is seen as a file: PNG, SVG, CSV, JSON, or on the clipboard.

import type { Context, View } from "./context";
import { CanvasPainter, SvgPainter, type Painter } from "./painter";

const WIDTH = 1000;
const MARGIN = 28;

function caption(context: Context): string {
  const { current, state } = context;
  const { provenance } = current.entry;
  const model = (provenance.name ?? provenance.model ?? "") as string;
  const head = state.head === null ? "" : `, head ${state.head}`;
  return [
    `${context.name(current)}, ${current.depthName(state.depth).toLowerCase()}${head}`,
    model,
    `mixlens ${context.payload.mixlens}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

class Shifted implements Painter {
  constructor(
    private readonly inner: Painter,
    private readonly by: number,
  ) {}
  rect: Painter["rect"] = (x, y, ...rest) => this.inner.rect(x + this.by, y + this.by, ...rest);
  text: Painter["text"] = (x, y, ...rest) => this.inner.text(x + this.by, y + this.by, ...rest);
  circle: Painter["circle"] = (x, y, ...rest) =>
    this.inner.circle(x + this.by, y + this.by, ...rest);
  curve: Painter["curve"] = (a, b, c, d, ...rest) =>
    this.inner.curve(a + this.by, b + this.by, c + this.by, d + this.by, ...rest);
  image: Painter["image"] = (picture, x, y, ...rest) =>
    this.inner.image(picture, x + this.by, y + this.by, ...rest);
  width: Painter["width"] = (...given) => this.inner.width(...given);
}

function painted(view: View, context: Context, painter: Painter): number {
  const inner = WIDTH - 2 * MARGIN;
  const height = view.paint(new Shifted(painter, MARGIN), context, inner);
  painter.text(MARGIN, MARGIN + height + 22, caption(context), {
    size: 12,
    fill: context.palette.quiet,
  });
  return height + 2 * MARGIN + 22;
}

export function svg(view: View, context: Context): string {
  const painter = new SvgPainter();
  const height = painted(view, context, painter);
  return painter.file(WIDTH, height, context.palette.paper);
}

export function png(view: View, context: Context, scale = 2): Promise<Blob> {
  const height = painted(view, context, new SvgPainter()); // once to know the height
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * scale;
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  pen.fillStyle = context.palette.paper;
  pen.fillRect(0, 0, WIDTH, height);
  painted(view, context, new CanvasPainter(pen));
  return new Promise((done, fail) =>
    canvas.toBlob(
      (blob) =>
        blob
          ? done(blob)
          : fail(new Error("The picture is too large for this browser. Save it as SVG.")),
      "image/png",
    ),
  );
}

/** Values that a spreadsheet would take for a formula get a quote mark in front. */
export function csv(rows: string[][]): string {
  const cell = (text: string) => {
    const safe = /^[=@+\t\r]/.test(text) || /^-(?![\d.])/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

export function json(view: View, context: Context): string {
  const [columns, ...rows] = view.rows(context);
  const { current, state } = context;
  const depth = current.depthName(state.depth);
  const { provenance } = current.entry;
  return `${JSON.stringify({ state, depth, provenance, columns, rows }, null, 2)}\n`;
}

export function download(name: string, content: Blob | string, type: string): void {
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
