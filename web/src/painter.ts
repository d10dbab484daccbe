// One way to draw, on a canvas or into an SVG file, so that what is saved is what was seen.

export interface TextStyle {
  size: number;
  fill: string;
  weight?: number;
  align?: "left" | "center" | "right";
  rotate?: number;
  rtl?: boolean;
}

export interface Painter {
  rect(
    x: number,
    y: number,
    w: number,
    h: number,
    fill: string | null,
    stroke?: string,
    line?: number,
    radius?: number,
  ): void;
  text(x: number, y: number, text: string, style: TextStyle): void;
  curve(
    x1: number,
    y1: number,
    x2: number,
    y2: number,
    width: number,
    stroke: string,
    alpha: number,
  ): void;
  circle(x: number, y: number, r: number, fill: string, stroke?: string): void;
  image(
    picture: HTMLCanvasElement | HTMLImageElement,
    x: number,
    y: number,
    w: number,
    h: number,
    smooth?: boolean,
  ): void;
  width(text: string, size: number, weight?: number): number;
}

export const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';

const font = (size: number, weight = 400) => `${weight} ${size}px ${FONT}`;

export class CanvasPainter implements Painter {
  constructor(private readonly pen: CanvasRenderingContext2D) {}

  rect: Painter["rect"] = (x, y, w, h, fill, stroke, line = 1, radius = 0) => {
    const { pen } = this;
    pen.beginPath();
    if (radius) pen.roundRect(x, y, w, h, radius);
    else pen.rect(x, y, w, h);
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.stroke();
    }
  };

  text: Painter["text"] = (x, y, text, style) => {
    const { pen } = this;
    pen.save();
    pen.font = font(style.size, style.weight);
    pen.fillStyle = style.fill;
    pen.textAlign = style.align ?? "left";
    pen.direction = style.rtl ? "rtl" : "ltr";
    pen.translate(x, y);
    if (style.rotate) pen.rotate((style.rotate * Math.PI) / 180);
    pen.fillText(text, 0, 0);
    pen.restore();
  };

  curve: Painter["curve"] = (x1, y1, x2, y2, width, stroke, alpha) => {
    const { pen } = this;
    const middle = (y1 + y2) / 2;
    pen.save();
    pen.globalAlpha = alpha;
    pen.strokeStyle = stroke;
    pen.lineWidth = width;
    pen.lineCap = "round";
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.bezierCurveTo(x1, middle, x2, middle, x2, y2);
    pen.stroke();
    pen.restore();
  };

  circle: Painter["circle"] = (x, y, r, fill, stroke) => {
    const { pen } = this;
    pen.beginPath();
    pen.arc(x, y, r, 0, 2 * Math.PI);
    pen.fillStyle = fill;
    pen.fill();
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = 2;
      pen.stroke();
    }
  };

  image: Painter["image"] = (picture, x, y, w, h, smooth = false) => {
    this.pen.imageSmoothingEnabled = smooth;
    this.pen.drawImage(picture, x, y, w, h);
  };

  width(text: string, size: number, weight?: number): number {
    return measured(text, size, weight);
  }
}

let ruler: CanvasRenderingContext2D | null = null;

function measured(text: string, size: number, weight?: number): number {
  ruler ??= document.createElement("canvas").getContext("2d")!;
  ruler.font = font(size, weight);
  return ruler.measureText(text).width;
}

const round = (value: number) => Math.round(value * 100) / 100;

export class SvgPainter implements Painter {
  private readonly parts: string[] = [];

  private put(
    tag: string,
    attributes: Record<string, string | number | undefined>,
    inside = "",
  ): void {
    const shown = Object.entries(attributes)
      .filter(([, value]) => value !== undefined)
      .map(
        ([key, value]) =>
          `${key}="${escaped(String(typeof value === "number" ? round(value) : value))}"`,
      )
      .join(" ");
    this.parts.push(`<${tag} ${shown}${inside ? `>${inside}</${tag}>` : "/>"}`);
  }

  rect: Painter["rect"] = (x, y, width, height, fill, stroke, line = 1, radius = 0) => {
    this.put("rect", {
      x,
      y,
      width,
      height,
      rx: radius || undefined,
      fill: fill ?? "none",
      stroke,
      "stroke-width": stroke && line,
    });
  };

  text: Painter["text"] = (x, y, text, style) => {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    this.put(
      "text",
      {
        x: style.rotate ? 0 : x,
        y: style.rotate ? 0 : y,
        transform: style.rotate
          ? `translate(${round(x)} ${round(y)}) rotate(${style.rotate})`
          : undefined,
        "font-size": style.size,
        "font-weight": style.weight,
        fill: style.fill,
        direction: style.rtl ? "rtl" : undefined,
        "text-anchor": anchor === "start" ? undefined : anchor,
      },
      escaped(text),
    );
  };

  curve: Painter["curve"] = (x1, y1, x2, y2, width, stroke, alpha) => {
    const [a, b, c, d, m] = [x1, y1, x2, y2, (y1 + y2) / 2].map(round);
    this.put("path", {
      d: `M${a} ${b}C${a} ${m} ${c} ${m} ${c} ${d}`,
      fill: "none",
      stroke,
      "stroke-width": width,
      "stroke-opacity": alpha,
      "stroke-linecap": "round",
    });
  };

  circle: Painter["circle"] = (cx, cy, r, fill, stroke) => {
    this.put("circle", { cx, cy, r, fill, stroke, "stroke-width": stroke && 2 });
  };

  image: Painter["image"] = (picture, x, y, width, height) => {
    const href =
      picture instanceof HTMLCanvasElement ? picture.toDataURL("image/png") : picture.src;
    this.put("image", {
      x,
      y,
      width,
      height,
      href,
      preserveAspectRatio: "none",
      style: "image-rendering:pixelated",
    });
  };

  width(text: string, size: number, weight?: number): number {
    return measured(text, size, weight);
  }

  file(width: number, height: number, paper: string): string {
    const [w, h] = [round(width), round(height)];
    const size = `width="${w}" height="${h}" viewBox="0 0 ${w} ${h}"`;
    const open = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${escaped(FONT)}">`;
    const ground = `<rect width="100%" height="100%" fill="${paper}"/>`;
    return `${open}${ground}${this.parts.join("")}</svg>\n`;
  }
}

function escaped(text: string): string {
  return text.replace(
    /[&<>"]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!,
  );
}

/** A label cut to a width, with an ellipsis. */
export function fitted(painter: Painter, text: string, size: number, width: number): string {
  if (painter.width(text, size) <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && painter.width(`${letters.join("")}…`, size) > width) letters.pop();
  return `${letters.join("")}…`;
}

/** Sizes a canvas for the screen's pixels and gives a painter for it. */
export function prepared(canvas: HTMLCanvasElement, width: number, height: number): CanvasPainter {
  const scale = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d")!;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return new CanvasPainter(pen);
}
