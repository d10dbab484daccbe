// A page with a server or a kernel behind it: a text box, the models and measures to choose from.

import { h, selectOf } from "./dom";
import type { Payload } from "./payload";

export interface Choices {
  models: { name: string; pairs?: boolean }[];
  measures: { name: string; summary?: string; per_head?: boolean }[];
  limits?: { tokens?: number };
}

export interface Job {
  model: string;
  text: string;
  target_text: string | null;
  measures: string[];
  heads: boolean;
}

export interface Live {
  choices(): Promise<Choices>;
  /** Resolves with a payload; `progress` is called with a part of one and words. */
  run(job: Job, progress: (part: number, words: string) => void): Promise<Payload>;
  cancel(): void;
}

const wait = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));

/** The API of `mixlens serve` (docs/viewer.md). */
export class Server implements Live {
  private job: string | null = null;

  constructor(private readonly api: string) {}

  private async ask<T>(path: string, options: RequestInit = {}): Promise<T> {
    const answer = await fetch(this.api + path, options);
    if (answer.status === 204) return undefined as T;
    const body = (await answer.json().catch(() => null)) as { detail?: unknown } | null;
    if (!answer.ok)
      throw new Error(
        typeof body?.detail === "string" ? body.detail : `The server answered ${answer.status}.`,
      );
    return body as T;
  }

  choices(): Promise<Choices> {
    return this.ask("");
  }

  async run(job: Job, progress: (part: number, words: string) => void): Promise<Payload> {
    const { id } = await this.ask<{ id: string }>("/jobs", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(job),
    });
    this.job = id;
    for (let pause = 80; ; pause = Math.min(1000, pause * 1.3)) {
      const now = await this.ask<{ state: string; progress: number; message: string }>(
        `/jobs/${id}`,
      );
      if (now.state === "done") break;
      if (now.state === "failed" || now.state === "cancelled")
        throw new Error(now.message || now.state);
      progress(now.progress, now.message || now.state);
      await wait(pause);
    }
    this.job = null;
    return this.ask(`/jobs/${id}/payload`);
  }

  cancel(): void {
    if (this.job) void this.ask(`/jobs/${this.job}`, { method: "DELETE" }).catch(() => undefined);
  }
}

const FIRST = ["value_zeroing", "attention", "alti"];

/** The form above the view. */
export function liveForm(
  live: Live,
  started: Payload,
  show: (payload: Payload) => void,
): HTMLElement {
  const text = h("textarea", { rows: "2", "aria-label": "Text", spellcheck: "false" });
  text.value = started.texts[0] ? written(started) : "";
  const second = h("textarea", {
    rows: "2",
    "aria-label": "Target text: what the decoder is given",
    placeholder: "What the decoder is given",
    spellcheck: "false",
    hidden: true,
  });
  const fields = h("span", { class: "live-fields" });
  const measures = h("fieldset", { class: "checks" }, h("legend", {}, "Measures"));
  const heads = h("input", { type: "checkbox" });
  const run = h("button", { type: "submit", class: "primary" }, "Measure");
  const cancel = h(
    "button",
    { type: "button", hidden: true, onclick: () => live.cancel() },
    "Cancel",
  );
  const bar = h("progress", { max: "1", hidden: true, "aria-label": "Progress" });
  const words = h("p", { class: "quiet", role: "status" });
  let model = "";
  const form = h(
    "form",
    {
      class: "live",
      onsubmit: (event: Event) => {
        event.preventDefault();
        void go();
      },
    },
    text,
    second,
    h(
      "div",
      { class: "live-line" },
      fields,
      h(
        "details",
        { class: "behind" },
        h("summary", {}, "Measures"),
        measures,
        h("label", {}, heads, " single heads too"),
      ),
      run,
      cancel,
      bar,
      words,
    ),
  );

  async function go(): Promise<void> {
    const chosen = [...measures.querySelectorAll<HTMLInputElement>("input:checked")].map(
      (box) => box.value,
    );
    run.disabled = true;
    bar.hidden = cancel.hidden = false;
    words.textContent = "";
    words.classList.remove("wrong");
    try {
      const job = {
        model,
        text: text.value,
        target_text: second.hidden ? null : second.value,
        measures: chosen,
        heads: heads.checked,
      };
      show(
        await live.run(job, (part, now) => {
          bar.value = part;
          words.textContent = now;
        }),
      );
      words.textContent = "";
    } catch (error) {
      words.textContent = (error as Error).message;
      words.classList.add("wrong");
    } finally {
      run.disabled = false;
      bar.hidden = cancel.hidden = true;
    }
  }

  live.choices().then(
    (found) => {
      model = found.models[0]?.name ?? "";
      const pairs = () => {
        second.hidden = !found.models.find((each) => each.name === model)?.pairs;
      };
      pairs();
      if (found.models.length > 1)
        fields.append(
          selectOf(
            "Model",
            found.models.map(({ name }) => [name, name]),
            model,
            (value) => {
              model = value;
              pairs();
            },
          ),
        );
      const shown = new Set(started.maps.map((entry) => entry.measure));
      for (const { name, summary } of found.measures) {
        const checked = shown.size ? shown.has(name) : FIRST.includes(name);
        measures.append(
          h(
            "label",
            { title: summary ?? "" },
            h("input", { type: "checkbox", value: name, checked }),
            ` ${name}`,
          ),
        );
      }
    },
    (error: Error) => {
      words.textContent = error.message;
      words.classList.add("wrong");
    },
  );
  return form;
}

function written(payload: Payload): string {
  const { shown, gaps, special, labels } = payload.texts[0]!;
  return shown
    .map((piece, i) => (special[i] && !/mask/i.test(labels[i]!) ? "" : gaps[i]! + piece))
    .join("")
    .trim();
}
