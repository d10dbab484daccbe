// The legend of a heat map: its colours from the smallest share to the largest.

import { css, shade, type Palette } from "../colour";
import { h, percent } from "../dom";

export function rampLegend(palette: Palette, scale: number, signed: boolean): HTMLElement[] {
  const ramp = h("span", { class: "ramp" });
  const from = signed ? -5 : 0;
  const stops = Array.from({ length: 6 - from }, (_, i) => css(shade(palette, (i + from) / 5)));
  ramp.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
  return [
    h("span", {}, signed ? percent(-scale) : "0\u00a0%"),
    ramp,
    h("span", {}, percent(scale)),
  ];
}
