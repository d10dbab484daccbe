// A prompt or a chat with documents, to be answered and explained.

import { checks, tickedIn } from "./checks";
import { h } from "./dom";
import type { AnswerJob, Choices, ModelChoice, Part, Turn } from "./live";

const ROLES = ["user", "assistant", "system"];
const NEW_TOKENS = 64;

export class AnswerForm implements Part {
  readonly element: HTMLElement;
  private readonly turns = h("div", { class: "turns" });
  private readonly documents = h("div", { class: "papers" });
  private readonly addTurn: HTMLButtonElement;
  private readonly answer = h("textarea", {
    rows: "2",
    "aria-label": "Answer to explain",
    placeholder: "Leave empty to let the model answer",
    spellcheck: "false",
  });
  private readonly length = h("input", { type: "number", min: "1", value: String(NEW_TOKENS) });
  private readonly methods = h("div");
  private ticked: string[];

  constructor(started: AnswerJob | null) {
    this.ticked = started?.methods ?? [];
    this.addTurn = button("Add a turn", () => this.putTurn({ role: "user", content: "" }));
    const add = () => this.putDocument(this.nextName(), "").querySelector("textarea")!.focus();
    for (const turn of started?.messages ?? [{ role: "user", content: "" }]) this.putTurn(turn);
    for (const { name, text } of started?.documents ?? []) this.putDocument(name, text);
    this.element = h(
      "div",
      { class: "live-part" },
      h("div", { class: "live-head" }, h("h2", {}, "Documents"), button("Add a document", add)),
      this.documents,
      h("div", { class: "live-head" }, h("h2", {}, "Prompt"), this.addTurn),
      this.turns,
      h(
        "details",
        { class: "behind" },
        h("summary", {}, "Methods, length and given answer"),
        this.methods,
        h("label", { class: "field" }, h("span", {}, "Maximum new tokens"), this.length),
        this.answer,
      ),
    );
  }

  offer(choices: Choices, model: ModelChoice): void {
    const names = model.methods ?? [];
    if (this.methods.firstChild) this.ticked = tickedIn(this.element);
    const kept = this.ticked.filter((name) => names.includes(name));
    this.ticked = kept.length ? kept : names.slice(0, 1);
    const summaries = new Map(choices.measures.map(({ name, summary }) => [name, summary]));
    const about = names.map((name) => ({ name, summary: summaries.get(name) }));
    this.methods.replaceChildren(checks("Methods", about, new Set(this.ticked)));
    this.addTurn.hidden = !model.chats;
    const most = choices.limits?.new_tokens;
    if (!most) return;
    this.length.max = String(most);
    this.length.value = String(Math.min(Number(this.length.value), most));
  }

  job(model: string): AnswerJob {
    const rows = (place: HTMLElement) => [...place.children] as HTMLElement[];
    const turns = rows(this.turns).map((row): Turn => {
      const role = row.querySelector("select")!.value;
      return { role, content: row.querySelector("textarea")!.value };
    });
    const written = turns.filter(({ content }) => content.trim());
    if (written.length === 1) written[0]!.role = "user"; // whose role cannot be seen
    if (!written.length) throw new Error("The prompt is empty. Type a question or a text.");
    return {
      model,
      messages: written,
      documents: rows(this.documents)
        .map((row) => ({
          name: row.querySelector("input")!.value.trim(),
          text: row.querySelector("textarea")!.value,
        }))
        .filter(({ text }) => text.trim()),
      answer: this.answer.value.trim() ? this.answer.value : null,
      methods: tickedIn(this.element),
      max_new_tokens: Number(this.length.value) || NEW_TOKENS,
    };
  }

  private putTurn({ role, content }: Turn): void {
    const text = h("textarea", { rows: "3", "aria-label": "Prompt", spellcheck: "false" });
    text.value = content;
    text.placeholder = "A question or a prompt. Put {documents} where the documents go.";
    const roles = h(
      "select",
      { "aria-label": "Role" },
      ...ROLES.map((name) => h("option", { value: name, selected: name === role }, name)),
    );
    const row = h(
      "div",
      { class: "turn-row" },
      roles,
      text,
      remover("turn", () => row.remove()),
    );
    this.turns.append(row);
  }

  private putDocument(name: string, text: string): HTMLElement {
    const title = h("input", { type: "text", "aria-label": "Name of the document" });
    title.value = name;
    const body = h("textarea", { rows: "3", "aria-label": `Text of ${name}`, spellcheck: "false" });
    body.value = text;
    body.placeholder = "The text of this document";
    const row = h(
      "div",
      { class: "paper" },
      title,
      remover("document", () => row.remove()),
      body,
    );
    this.documents.append(row);
    return row;
  }

  /** A name that no document has. */
  private nextName(): string {
    const names = [...this.documents.querySelectorAll("input")].map((each) => each.value.trim());
    let number = names.length + 1;
    while (names.includes(`document ${number}`)) number++;
    return `document ${number}`;
  }
}

function button(label: string, act: () => void): HTMLButtonElement {
  return h("button", { type: "button", onclick: act }, label);
}

function remover(what: string, act: () => void): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "plain", "aria-label": `Remove this ${what}`, onclick: act },
    "×",
  );
}
