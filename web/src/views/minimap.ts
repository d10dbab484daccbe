// A strip next to long documents: where each begins, what is in sight, and where strong passages are.

import type { AnswerScores } from "../answered";
import { css, shade, type Palette } from "../colour";
import { h, styled } from "../dom";

const FEWEST = 0.12; // of the largest: weaker passages have no mark

export class Minimap {
  readonly element = h("div", { class: "minimap", "aria-hidden": "true" });
  private readonly window = h("div", { class: "minimap-window" });
  private readonly marks = h("div", { class: "minimap-marks" });
  private passages: HTMLElement[] = [];
  private frame = 0;
  private last: [[number, number][], Palette] | null = null;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly show: (passage: number) => void,
  ) {
    this.element.addEventListener("click", (event) => this.jump(event));
    scroller.addEventListener("scroll", () => this.follow(), { passive: true });
    // Documents that come into sight get their true heights.
    new ResizeObserver(() => this.follow()).observe(scroller);
  }

  build(scores: AnswerScores, passages: HTMLElement[]): void {
    this.passages = passages;
    this.starts = [];
    let end = 0;
    const edges: number[] = [];
    for (const { document, pieces } of scores.about.blocks) {
      if (document < 0) continue;
      edges.push(end);
      for (const [text, passage] of pieces) {
        if (passage >= 0) this.starts[passage] = end;
        end += text.length;
      }
      end += 60; // its name
    }
    this.length = Math.max(1, end);
    const lines = edges
      .slice(1)
      .map((at) => styled(h("span", { class: "edge" }), { top: `${(100 * at) / this.length}%` }));
    this.element.replaceChildren(...(edges.length <= 60 ? lines : []), this.marks, this.window);
    this.follow();
  }

  private starts: number[] = [];
  private length = 1;

  /** Marks passages by their place and strength; without any, the same as before. */
  mark(marks?: [number, number][], palette?: Palette): void {
    if (marks && palette) this.last = [marks, palette];
    if (!this.last) return;
    const [known, colours] = this.last;
    this.marks.replaceChildren(
      ...known
        .filter(([, t]) => t >= FEWEST)
        .map(([passage, t]) =>
          styled(h("span"), {
            top: `${(100 * this.starts[passage]!) / this.length}%`,
            background: css(shade(colours, 0.3 + 0.7 * t)),
          }),
        ),
    );
    this.follow();
  }

  private follow(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const { scrollTop, scrollHeight, clientHeight } = this.scroller;
      const all = Math.max(1, scrollHeight);
      this.element.hidden = scrollHeight <= clientHeight + 4;
      this.window.style.top = `${(100 * scrollTop) / all}%`;
      this.window.style.height = `${(100 * clientHeight) / all}%`;
    });
  }

  private jump(event: MouseEvent): void {
    const box = this.element.getBoundingClientRect();
    const at = ((event.clientY - box.top) / box.height) * this.length;
    let nearest = 0;
    this.starts.forEach((start, passage) => {
      if (Math.abs(start - at) < Math.abs(this.starts[nearest]! - at)) nearest = passage;
    });
    if (this.passages[nearest]) this.show(nearest);
  }
}
