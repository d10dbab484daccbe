// An answer next to the documents: point at a word, and the passages that it rests on light up.

import { order, sharesOf, WORD, type AnswerScores, type Part, type Scored } from "../answered";
import { css, inkOn, shade } from "../colour";
import type { Context, View } from "../context";
import { h, percent, short, styled } from "../dom";
import { fitted, type Painter } from "../painter";
import { AnswerText } from "./answer_text";
import { heatScale, HeatPicture } from "./heat";
import { Minimap } from "./minimap";

const LISTED = 6; // passages in the list
const LIT = 240; // passages that are shaded at most
const LIT_WORDS = 60;
const FAINT = 0.15; // of the largest: weaker ones are not shaded

const COLOURS = ["#2a74bd", "#8a6bbf", "#b5528c", "#c9793b", "#8d9196", "#4f9d86", "#59626d"];

export class AnswerView implements View {
  readonly element: HTMLElement;
  private readonly head = h("h1", { class: "answer" });
  private readonly facts = h("div", { class: "facts" });
  private readonly text: AnswerText;
  private readonly bar = h("div", { class: "kinds", role: "img" });
  private readonly legend = h("p", { class: "legend kinds-legend" });
  private readonly listName = h("h2", {});
  private readonly list = h("ol", { class: "cited" });
  private readonly methodsName = h("h2", {}, "Result of each method");
  private readonly methods = h("table", { class: "methods" });
  private readonly scroller = h("div", {
    class: "documents",
    tabindex: "0",
    role: "region",
    "aria-label": "Documents",
  });
  private readonly map: Minimap;
  private readonly others = h("input", { type: "checkbox" });
  private passages: HTMLElement[] = [];
  private badges: HTMLElement[] = [];
  private pictures: HeatPicture[] = [];
  private lit: HTMLElement[] = [];
  private wordSpans = new Map<number, HTMLElement[]>();
  private context!: Context;
  private built: AnswerScores | null = null;
  private hovered: Part | null = null;
  private frame = 0;
  private drawn = "";
  private kept: Part = "";

  constructor() {
    this.text = new AnswerText({
      point: (part) => this.point(part),
      choose: (part) =>
        this.context.actions.set({ part: part === this.context.state.part ? "" : part }),
    });
    this.map = new Minimap(this.scroller, (passage) => this.show(passage, false));
    this.others.addEventListener("change", () => {
      this.scroller.classList.toggle("all", this.others.checked);
      this.map.mark();
    });
    this.element = h(
      "div",
      { class: "answer-view" },
      this.head,
      this.facts,
      h(
        "div",
        { class: "answer-columns" },
        h(
          "div",
          { class: "answer-side" },
          h("h2", {}, "Answer"),
          this.text.element,
          this.bar,
          this.legend,
        ),
        h(
          "div",
          { class: "details-side" },
          this.listName,
          this.list,
          this.methodsName,
          this.methods,
        ),
        h(
          "div",
          { class: "documents-side" },
          h(
            "div",
            { class: "documents-head" },
            h("h2", {}, "Documents"),
            h("label", {}, this.others, " show question and template"),
          ),
          h("div", { class: "documents-frame" }, this.scroller, this.map.element),
        ),
      ),
    );
  }

  private get scores(): AnswerScores {
    return this.context.answer!;
  }

  /** The part that is shown: the one pointed at, else the one that is kept. */
  private get part(): Part {
    return this.hovered ?? this.context.state.part;
  }

  private get scored(): Scored {
    return this.scores.of(this.context.state.method, this.part);
  }

  private point(part: Part | null): void {
    if (part === this.hovered) return;
    this.hovered = part;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.light());
  }

  update(context: Context): void {
    this.context = context;
    if (this.built !== context.answer) this.build();
    this.drawn = "";
    this.text.update(context);
    this.light();
    const isNew = context.state.part !== this.kept;
    this.kept = context.state.part;
    if (this.kept && isNew) {
      const { passages, documents } = this.scored;
      const best = passages ? order(passages, 1)[0] : this.firstOf(order(documents, 1)[0]);
      if (best !== undefined) this.show(best, false);
    }
  }

  private firstOf(document: number | undefined): number | undefined {
    if (document === undefined) return undefined;
    return this.scores.passages.findIndex((each) => each.document === document);
  }

  // ---------------------------------------------------------------------------------- documents

  private build(): void {
    const { about } = (this.built = this.scores);
    this.passages = [];
    this.badges = [];
    this.pictures = [];
    this.lit = [];
    this.wordSpans.clear();
    this.scroller.replaceChildren(...about.blocks.map((block) => this.block(block)));
    this.map.build(this.scores, this.passages);
    this.others.closest("label")!.hidden = about.blocks.every((block) => block.document >= 0);
  }

  private block({ name, kind, document, pieces }: (typeof this.scores.about.blocks)[number]) {
    const badge = h("span", { class: "badge" });
    if (document >= 0) this.badges[document] = badge;
    const image = this.imageOf(name, document);
    if (image) {
      const picture = new HeatPicture(image);
      this.pictures.push(picture);
      for (const [, passage] of pieces) if (passage >= 0) this.passages[passage] = picture.element;
      const head = h("h3", { dir: "auto" }, name, badge);
      return h("section", { class: "document" }, head, picture.element);
    }
    const parts = pieces.map(([text, passage]) => {
      if (passage < 0) return h("span", {}, text);
      return (this.passages[passage] = h("span", { class: "passage" }, text));
    });
    const title =
      document >= 0 || kind === "template" || kind === name ? name : `${name} · ${kind}`;
    return h(
      "section",
      { class: document >= 0 ? "document" : "document other" },
      h("h3", { dir: "auto" }, title, badge),
      h("p", { dir: "auto" }, ...parts),
    );
  }

  /** The picture that a document is, of which the prompt has only placeholders. */
  private imageOf(name: string, document: number) {
    if (document < 0) return undefined;
    return this.context.payload.images?.find((each) => each.name === name);
  }

  /** Is this passage the picture itself? */
  private isPicture(passage: number): boolean {
    const { document } = this.scores.passages[passage]!;
    return this.imageOf(this.scores.documents[document]!, document) !== undefined;
  }

  /** The text of a passage, in words if it is a picture. */
  private textOf(passage: number): string {
    return this.isPicture(passage) ? "the image" : this.scores.passages[passage]!.text;
  }

  private heat(): void {
    const { patches } = this.scored;
    const places = new Map(this.scores.about.patches?.map((token, i) => [token, i]));
    const value = (token: number) => patches?.[places.get(token) ?? -1] ?? 0;
    const scale = heatScale(this.pictures, value);
    for (const picture of this.pictures) picture.show(this.context, value, scale);
  }

  /** The elements of the words of a passage, which is cut into them when it is first needed. */
  private words(passage: number): HTMLElement[] {
    let found = this.wordSpans.get(passage);
    if (found) return found;
    found = [];
    const { text } = this.scores.passages[passage]!;
    const nodes: (Node | string)[] = [];
    let end = 0;
    for (const match of text.matchAll(WORD)) {
      const span = h("span", { class: "word" }, match[0]);
      nodes.push(text.slice(end, match.index), span);
      found.push(span);
      end = match.index + match[0].length;
    }
    nodes.push(text.slice(end));
    this.passages[passage]!.replaceChildren(...nodes);
    this.wordSpans.set(passage, found);
    return found;
  }

  private show(passage: number, flash = true): void {
    const target = this.passages[passage]!;
    const { scroller } = this;
    const scroll = () => {
      const at = target.getBoundingClientRect();
      const box = scroller.getBoundingClientRect();
      scroller.scrollTop += at.top - box.top - box.height / 3;
    };
    scroll();
    requestAnimationFrame(scroll); // documents that come into sight get their true heights
    if (!flash) return;
    target.classList.remove("found");
    void target.offsetWidth;
    target.classList.add("found");
  }

  // ------------------------------------------------------------------------------------ shading

  private light(): void {
    const { state, palette } = this.context;
    const key = `${state.method} ${this.part} ${palette.paper}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const { documents, passages, words } = this.scored;
    const shares = sharesOf(documents);
    for (const element of this.lit) {
      element.style.background = "";
      element.style.color = "";
    }
    this.lit = [];
    const values = passages ?? this.spread(documents);
    const marks: [number, number][] = [];
    this.shadeBest(values, LIT, 0.5, (at, t) => {
      marks.push([at, t]);
      return this.isPicture(at) ? undefined : this.passages[at];
    });
    this.heat();
    if (words)
      this.shadeBest(words, LIT_WORDS, 1, (at) => {
        const passage = this.scores.passageOf(at);
        if (this.isPicture(passage)) return undefined;
        return this.words(passage)[at - this.scores.firstWord[passage]!];
      });
    this.badges.forEach((badge, i) => {
      badge.textContent = shares[i]! >= 0.005 ? percent(shares[i]!) : "";
      badge.style.setProperty("--share", String(shares[i]!));
    });
    this.map.mark(marks, palette);
    this.text.mark(this.part, state.part);
    this.sentence(shares);
    this.fillKinds();
    this.fillList(shares);
    this.fillMethods();
  }

  /** The score of a document that was removed as a whole, at each of its passages. */
  private spread(documents: Float64Array): Float64Array {
    return Float64Array.from(this.scores.passages, (each) => documents[each.document]!);
  }

  private shadeBest(
    values: Float64Array,
    count: number,
    strength: number,
    element: (at: number, t: number) => HTMLElement | undefined,
  ): void {
    const best = order(values, count);
    const largest = best.length ? values[best[0]!]! : 0;
    for (const at of best) {
      const t = values[at]! / largest;
      if (t < FAINT) break;
      const found = element(at, t);
      if (!found) continue;
      const colour = shade(this.context.palette, t * strength);
      found.style.background = css(colour);
      found.style.color = inkOn(colour);
      this.lit.push(found);
    }
  }

  // -------------------------------------------------------------------------------------- words

  private sentence(shares: Float64Array): void {
    const { scores, part } = this;
    const best = order(shares, 1)[0];
    const name = part[0] === "w" ? h("b", {}, short(scores.text(part))) : null;
    const subject = name ?? (part ? "This sentence" : "This answer");
    if (best === undefined) this.head.replaceChildren(subject, " rests on no document.");
    else if (scores.documents.length === 1) this.head.replaceChildren(...this.onPassage(subject));
    else
      this.head.replaceChildren(
        subject,
        " rests most on ",
        h("b", {}, short(scores.documents[best]!)),
        ` (${percent(shares[best]!)} of the documents)`,
      );
    const { about } = scores;
    const firsts = about.methods.map((_, i) => order(scores.of(i, part).documents, 1)[0]);
    const same = firsts.filter((first) => first === best).length;
    const method = about.methods[this.context.state.method]!;
    const lines = [`By ${method.name}, ${method.reading}.`];
    if (about.methods.length > 1 && best !== undefined && scores.documents.length > 1)
      lines[0] += ` ${same} of ${about.methods.length} methods put this document first.`;
    this.facts.replaceChildren(h("p", {}, lines.join(" ")));
  }

  private onPassage(subject: Node | string): (Node | string)[] {
    const { passages } = this.scored;
    const best = passages ? order(passages, 1)[0] : undefined;
    if (best === undefined) return [subject, " rests on this document"];
    if (this.isPicture(best))
      return [subject, " rests on ", h("b", {}, this.scores.documents[0]!), "."];
    return [subject, " rests most on ", h("b", {}, `“${short(this.scores.passages[best]!.text)}”`)];
  }

  private fillKinds(): void {
    const { kinds } = this.scored;
    this.bar.hidden = this.legend.hidden = !kinds;
    if (!kinds) return;
    const names = this.scores.about.kinds.map((kind) => (kind === "document" ? "documents" : kind));
    let sum = 0;
    for (const value of kinds) sum += value;
    const parts = names
      .map((name, i) => [name, kinds[i]! / (sum || 1), COLOURS[i]!] as const)
      .filter(([, share]) => share > 0); // alti does not score the own words of a long span
    const said = parts.map(([name, share]) => `${name} ${percent(share)}`).join(", ");
    this.bar.setAttribute("aria-label", `Shares of all sources: ${said}`);
    this.bar.replaceChildren(
      ...parts.map(([, share, colour]) =>
        styled(h("span"), { "flex-grow": String(share), background: colour }),
      ),
    );
    this.legend.replaceChildren(
      ...parts.map(([name, share, colour]) =>
        h(
          "span",
          {},
          styled(h("i"), { background: colour }),
          `${name} `,
          h("span", { class: "quiet" }, percent(share)),
        ),
      ),
    );
  }

  /** The best passages, each with its document. */
  private ranked(shares: Float64Array): { passage: number; share: number; isCut: boolean }[] {
    const { passages, documents } = this.scored;
    if (!passages)
      return order(documents, LISTED).map((at) => ({
        passage: this.firstOf(at)!,
        share: shares[at]!,
        isCut: this.scores.passages.filter(({ document }) => document === at).length > 1,
      }));
    const own = sharesOf(passages);
    return order(passages, LISTED).map((at) => ({ passage: at, share: own[at]!, isCut: false }));
  }

  private fillList(shares: Float64Array): void {
    const ranked = this.ranked(shares);
    const what = this.part[0] === "w" ? `“${short(this.scores.text(this.part))}”` : "";
    this.listName.textContent = what ? `Passages for ${what}` : "Passages";
    const largest = ranked[0]?.share ?? 1;
    this.list.replaceChildren(
      ...ranked.map(({ passage, share, isCut }) => {
        const { document } = this.scores.passages[passage]!;
        const text = this.textOf(passage);
        const colour = css(shade(this.context.palette, 0.35 + (0.6 * share) / largest));
        return h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "passage-link", onclick: () => this.show(passage) },
            h(
              "span",
              { class: "passage-head" },
              h("b", {}, short(this.scores.documents[document]!)),
              h("span", { class: "quiet" }, percent(share)),
            ),
            h("span", { class: "passage-text", dir: "auto" }, isCut ? `${text} …` : text),
          ),
          styled(h("span", { class: "bar" }), {
            width: `${(100 * share) / largest}%`,
            background: colour,
          }),
        );
      }),
    );
  }

  /** The best document by each method; a click shows the method. */
  private fillMethods(): void {
    const { scores, part } = this;
    const { methods } = scores.about;
    this.methods.hidden = this.methodsName.hidden =
      methods.length < 2 || scores.documents.length < 2;
    if (this.methods.hidden) return;
    const rows = methods.map(({ name }, i) => {
      const { documents } = scores.of(i, part);
      const best = order(documents, 1)[0];
      const chosen = i === this.context.state.method;
      const choose = () => this.context.actions.set({ method: i });
      return h(
        "tr",
        { class: chosen ? "chosen" : null },
        h(
          "th",
          { scope: "row" },
          h(
            "button",
            { type: "button", class: "source", "aria-pressed": String(chosen), onclick: choose },
            name,
          ),
        ),
        h("td", {}, best === undefined ? "none" : short(scores.documents[best]!)),
        h("td", {}, best === undefined ? "" : percent(sharesOf(documents)[best]!)),
      );
    });
    this.methods.replaceChildren(h("tbody", {}, ...rows));
  }

  // -------------------------------------------------------------------------------------- files

  paint(painter: Painter, context: Context, width: number): number {
    this.context = context;
    const { palette } = context;
    const line = (y: number, text: string, size: number, fill: string, weight?: number) =>
      painter.text(0, y, fitted(painter, text, size, width), { size, fill, weight });
    line(20, this.head.textContent ?? "", 18, palette.ink, 600);
    let y = 48;
    const text = this.scores.about.pieces.map(([piece]) => piece).join("");
    for (const row of wrapped(painter, text.trim(), 16, width)) {
      painter.text(0, y, row, { size: 16, fill: palette.ink });
      y += 24;
    }
    y += 12;
    const ranked = this.ranked(sharesOf(this.scored.documents));
    const largest = ranked[0]?.share ?? 1;
    for (const { passage, share } of ranked) {
      const { document } = this.scores.passages[passage]!;
      const text = this.textOf(passage);
      const colour = css(shade(palette, 0.35 + (0.6 * share) / largest));
      painter.rect(0, y - 12, 90 * (share / largest), 12, colour);
      painter.text(100, y - 2, percent(share), { size: 13, fill: palette.quiet });
      const label = `${this.scores.documents[document]!}: ${text.replace(/\s+/g, " ")}`;
      painter.text(160, y - 2, fitted(painter, label, 13, width - 160), {
        size: 13,
        fill: palette.ink,
      });
      y += 24;
    }
    for (const picture of this.pictures) y += picture.paint(painter, 0, y, width) + 14;
    return y;
  }

  rows(context: Context): string[][] {
    this.context = context;
    const { scores } = this;
    const rows = [["method", "part", "document", "passage", "score"]];
    const { name } = scores.about.methods[context.state.method]!;
    const part = this.part ? scores.text(this.part) : "answer";
    const { passages, documents } = this.scored;
    if (passages)
      for (const at of order(passages, passages.length)) {
        const { document } = scores.passages[at]!;
        const text = this.textOf(at);
        rows.push([name, part, scores.documents[document]!, text, passages[at]!.toPrecision(4)]);
      }
    else
      documents.forEach((value, at) =>
        rows.push([name, part, scores.documents[at]!, "", value.toPrecision(4)]),
      );
    return rows;
  }
}

/** A text in lines of a width. */
function wrapped(painter: Painter, text: string, size: number, width: number): string[] {
  const lines: string[] = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    for (const word of paragraph.split(/\s+/)) {
      const longer = line ? `${line} ${word}` : word;
      if (line && painter.width(longer, size) > width) {
        lines.push(line);
        line = word;
      } else line = longer;
    }
    lines.push(line);
  }
  return lines;
}
