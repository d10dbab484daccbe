// The text of an answer: words that can be pointed at and kept, and the numbers of cited passages.

import type { Part } from "../answered";
import type { Context } from "../context";
import { h } from "../dom";
import { visible } from "../visible";

export class AnswerText {
  readonly element: HTMLElement;
  private words: HTMLElement[] = [];
  private sentenceOf: number[] = [];
  private follow: "words" | "sentences" = "words";
  private key = "";

  constructor(
    private readonly handlers: {
      point(part: Part | null): void;
      choose(part: Part): void;
    },
  ) {
    this.element = h("div", {
      class: "answer-text",
      role: "listbox",
      "aria-label": "Answer",
      dir: "auto",
      onclick: (e: Event) => this.at(e, (part) => this.handlers.choose(part)),
      onmousemove: (e: Event) => this.over(e),
      onmouseleave: () => this.handlers.point(null),
      onfocusin: (e: Event) => this.at(e, (part) => this.handlers.point(part)),
      onfocusout: () => this.handlers.point(null),
      onkeydown: (e: KeyboardEvent) => this.typed(e),
    });
  }

  private partOf(event: Event): Part | null {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-word], [data-cites]");
    if (!found) return null;
    if (found.dataset.cites !== undefined) return `s${Number(found.dataset.cites)}`;
    const word = Number(found.dataset.word);
    const sentence = this.sentenceOf[word]!;
    return this.follow === "sentences" && sentence >= 0 ? `s${sentence}` : `w${word}`;
  }

  private at(event: Event, then: (part: Part) => void): void {
    const part = this.partOf(event);
    if (part) then(part);
  }

  private over(event: Event): void {
    const part = this.partOf(event);
    if (part) this.handlers.point(part); // between words the last one stays
  }

  private typed(event: KeyboardEvent): void {
    const now = this.words.indexOf(event.target as HTMLElement);
    if (now < 0) return;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.at(event, this.handlers.choose);
    else if (event.key === "Escape") this.handlers.choose("");
    else if (event.key === "Home") this.focus(0);
    else if (event.key === "End") this.focus(this.words.length - 1);
    else if (!step) return;
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.focusSentence(now, step);
    else this.focus(now + step);
    event.preventDefault();
  }

  /** Goes to the first word of the next sentence, or of the one before. */
  private focusSentence(now: number, step: number): void {
    const wanted = this.sentenceOf[now]! + step;
    const found = this.sentenceOf.indexOf(wanted);
    if (found >= 0) this.focus(found);
  }

  private focus(number: number): void {
    const next = Math.max(0, Math.min(this.words.length - 1, number));
    for (const word of this.words) word.tabIndex = -1;
    this.words[next]!.tabIndex = 0;
    this.words[next]!.focus();
  }

  update(context: Context): void {
    const { about } = context.answer!;
    this.follow = context.state.follow;
    const { name } = about.methods[context.state.method]!;
    const key = `${name} ${about.pieces.length}`;
    if (key === this.key) return;
    this.key = key;
    const focused = this.words.findIndex((word) => word.tabIndex === 0);
    const numbers = new Map<number, number>();
    this.words = [];
    this.sentenceOf = [];
    const lastWord = about.sentences.map((_, i) => {
      let last = -1;
      for (const [, word, sentence] of about.pieces) if (sentence === i) last = word;
      return last;
    });
    const nodes: Node[] = [];
    const length = about.pieces.reduce((sum, [text]) => sum + text.length, 0);
    this.element.classList.toggle("long", length > 700);
    for (const [text, word, sentence] of about.pieces) {
      if (word < 0) {
        nodes.push(document.createTextNode(nodes.length ? text : text.trimStart()));
        continue;
      }
      const span = h(
        "span",
        { class: "token", role: "option", "data-word": word, tabindex: "-1" },
        visible(text),
      );
      this.words.push(span);
      this.sentenceOf.push(sentence);
      nodes.push(span);
      if (sentence >= 0 && lastWord[sentence] === word)
        nodes.push(
          document.createTextNode("\u2060"), // no line break in front of the numbers
          this.cited(sentence, about.citations[name]?.[sentence] ?? [], numbers),
        );
    }
    this.element.replaceChildren(...nodes);
    const first = this.words[Math.max(0, focused)];
    if (first) first.tabIndex = 0;
  }

  private cited(sentence: number, passages: number[], numbers: Map<number, number>): HTMLElement {
    const marks = passages.map((passage) => {
      if (!numbers.has(passage)) numbers.set(passage, numbers.size + 1);
      return `[${numbers.get(passage)}]`;
    });
    return h(
      "span",
      {
        class: "cites",
        "data-cites": sentence,
        "aria-hidden": "true",
        title: "Show the passages that this sentence rests on",
      },
      marks.join(""),
    );
  }

  /** Outlines the word of a part, or underlines the words of a sentence. */
  mark(part: Part, kept: Part): void {
    this.words.forEach((word, number) => {
      const inside = part === `w${number}` || part === `s${this.sentenceOf[number]!}`;
      const held = kept === `w${number}` || kept === `s${this.sentenceOf[number]!}`;
      word.classList.toggle("target", inside);
      word.classList.toggle("of-sentence", inside && part.startsWith("s"));
      word.classList.toggle("pointed", inside && !held);
      word.setAttribute("aria-selected", String(held));
    });
  }
}
