// A text to measure, and the measures that support the model.

import { checks, tickedIn } from "./checks";
import { h } from "./dom";
import type { Choices, ModelChoice, Part, TextJob } from "./live";
import type { Payload } from "./payload";

const FIRST = ["value_zeroing", "attention", "alti"];

export class TextForm implements Part {
  readonly element: HTMLElement;
  private readonly text = h("textarea", { rows: "2", "aria-label": "Text", spellcheck: "false" });
  private readonly second = h("textarea", {
    rows: "2",
    "aria-label": "Target text (decoder input)",
    placeholder: "Decoder input",
    spellcheck: "false",
    hidden: true,
  });
  private readonly heads = h("input", { type: "checkbox" });
  private readonly measures = h("div");
  private ticked: string[];

  constructor(started: Payload) {
    const shown = started.request ? [] : started.maps.map((entry) => entry.measure);
    this.ticked = shown.length ? shown : FIRST;
    this.text.value = started.texts[0] && !started.request ? written(started) : "";
    this.element = h(
      "div",
      { class: "live-part" },
      this.text,
      this.second,
      h(
        "details",
        { class: "behind" },
        h("summary", {}, "Measures"),
        this.measures,
        h("label", {}, this.heads, " with single heads"),
      ),
    );
  }

  offer(choices: Choices, model: ModelChoice): void {
    this.second.hidden = !model.pairs;
    if (this.measures.firstChild) this.ticked = tickedIn(this.element);
    const able = choices.measures.filter(({ name }) => model.measures?.includes(name) ?? true);
    this.measures.replaceChildren(checks("Measures", able, new Set(this.ticked)));
  }

  job(model: string): TextJob {
    return {
      model,
      text: this.text.value,
      target_text: this.second.hidden ? null : this.second.value,
      measures: tickedIn(this.element),
      heads: this.heads.checked,
    };
  }
}

function written(payload: Payload): string {
  const { shown, gaps, special, labels } = payload.texts[0]!;
  return shown
    .map((piece, i) => (special[i] && !/mask/i.test(labels[i]!) ? "" : gaps[i]! + piece))
    .join("")
    .trim();
}
