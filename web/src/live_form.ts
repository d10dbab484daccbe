// The form above the view of a live page: measure a text, or answer a prompt and explain the answer.

import { AnswerForm } from "./answer_form";
import { h, selectOf } from "./dom";
import type { Choices, Live, ModelChoice, Part } from "./live";
import type { Payload } from "./payload";
import { TextForm } from "./text_form";

type Kind = "text" | "answer";
const NAMES = { text: "Measure a text", answer: "Explain an answer" } as const;
const VERBS = { text: "Measure", answer: "Answer" } as const;

class LiveForm {
  readonly element: HTMLFormElement;
  private readonly parts: Record<Kind, Part>;
  private readonly kinds = h("div", { class: "kinds-of-job", role: "group", hidden: true });
  private readonly fields = h("span", { class: "live-fields" });
  private readonly run = h("button", { type: "submit", class: "primary" }, "Measure");
  private readonly cancel: HTMLButtonElement;
  private readonly bar = h("progress", { max: "1", hidden: true, "aria-label": "Progress" });
  private readonly words = h("p", { class: "quiet", role: "status" });
  private kind: Kind;
  private model: ModelChoice = { name: "" };
  private choices: Choices = { models: [], measures: [] };

  constructor(
    private readonly live: Live,
    started: Payload,
    private readonly show: (payload: Payload) => void,
  ) {
    this.kind = started.request ? "answer" : "text";
    this.parts = { text: new TextForm(started), answer: new AnswerForm(started.request ?? null) };
    this.kinds.setAttribute("aria-label", "Task");
    const stop = { type: "button", hidden: true, onclick: () => live.cancel() };
    this.cancel = h("button", stop, "Cancel");
    this.element = h(
      "form",
      {
        class: "live",
        onsubmit: (event: Event) => {
          event.preventDefault();
          void this.go();
        },
      },
      this.kinds,
      this.parts.text.element,
      this.parts.answer.element,
      h("div", { class: "live-line" }, this.fields, this.run, this.cancel, this.bar, this.words),
    );
    this.choose(this.kind);
    live.choices().then(
      (choices) => this.offer(choices),
      (error: Error) => this.fail(error),
    );
  }

  private offer(choices: Choices): void {
    this.choices = choices;
    this.take(choices.models[0] ?? { name: "" });
    if (choices.models.length < 2) return;
    const names = choices.models.map(({ name }): [string, string] => [name, name]);
    this.fields.append(
      selectOf("Model", names, this.model.name, (value) =>
        this.take(choices.models.find(({ name }) => name === value)!),
      ),
    );
  }

  private take(model: ModelChoice): void {
    this.model = model;
    for (const part of Object.values(this.parts)) part.offer(this.choices, model);
    const answers = Boolean(model.methods?.length);
    this.kinds.hidden = !answers;
    this.choose(answers ? this.kind : "text");
  }

  private choose(kind: Kind): void {
    this.kind = kind;
    for (const each of ["text", "answer"] as const) this.parts[each].element.hidden = each !== kind;
    this.run.textContent = VERBS[kind];
    this.kinds.replaceChildren(
      ...(["answer", "text"] as const).map((each) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(each === kind),
            onclick: () => this.choose(each),
          },
          NAMES[each],
        ),
      ),
    );
  }

  private async go(): Promise<void> {
    this.run.disabled = true;
    this.bar.hidden = this.cancel.hidden = false;
    this.bar.removeAttribute("value");
    this.words.textContent = "";
    this.words.classList.remove("wrong");
    try {
      const job = this.parts[this.kind].job(this.model.name);
      this.show(
        await this.live.run(job, (part, now) => {
          this.bar.value = part;
          this.words.textContent = now;
        }),
      );
      this.words.textContent = "";
    } catch (error) {
      this.fail(error as Error);
    } finally {
      this.run.disabled = false;
      this.bar.hidden = this.cancel.hidden = true;
    }
  }

  private fail(error: Error): void {
    this.words.textContent = error.message;
    this.words.classList.add("wrong");
  }
}

export function liveForm(
  live: Live,
  started: Payload,
  show: (payload: Payload) => void,
): HTMLElement {
  return new LiveForm(live, started, show).element;
}
