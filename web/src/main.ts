// The ways in: a page with its payload inside, and a widget with a kernel behind it.

import { App } from "./app";
import { h } from "./dom";
import { Server, type Choices, type Job, type Live } from "./live";
import type { Payload } from "./payload";
import style from "./style.css";

function styled(root: Document | ShadowRoot): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
}

function mounted(root: HTMLElement, make: () => App): void {
  try {
    make();
  } catch (error) {
    root.replaceChildren(
      h("p", { role: "alert" }, `This view cannot be shown: ${(error as Error).message}`),
    );
  }
}

const given = typeof document === "undefined" ? null : document.getElementById("payload");
const place = typeof document === "undefined" ? null : document.getElementById("view");
if (given && place) {
  styled(document);
  const payload = JSON.parse(given.textContent ?? "null") as Payload;
  const linked = location.protocol !== "about:";
  mounted(
    place,
    () => new App(place, payload, payload.live ? new Server(payload.live.api) : null, linked),
  );
}

/** What anywidget gives: traits by name, and a way to hear that they changed. */
interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, act: () => void): void;
  off(event: string, act: () => void): void;
}

class Kernel implements Live {
  private running = 0;

  constructor(private readonly model: Model) {}

  choices(): Promise<Choices> {
    return Promise.resolve(this.model.get("choices") as Choices);
  }

  run(job: Job): Promise<Payload> {
    const number = ++this.running;
    return new Promise((done, fail) => {
      const heard = () => {
        const answer = this.model.get("answer") as {
          number: number;
          payload?: Payload;
          error?: string;
        };
        if (answer.number !== number) return;
        this.model.off("change:answer", heard);
        if (answer.payload) done(answer.payload);
        else
          fail(
            new Error(answer.error ?? "The notebook kernel did not answer. Run the cell again."),
          );
      };
      this.model.on("change:answer", heard);
      this.model.set("job", { ...job, number });
      this.model.save_changes();
    });
  }

  cancel(): void {
    // A kernel does one thing at a time: interrupt it from the notebook.
  }
}

/** anywidget's entry. */
export function render({ model, el }: { model: Model; el: HTMLElement }): void {
  const shadow = el.attachShadow({ mode: "open" });
  styled(shadow);
  const root = h("div");
  shadow.append(root);
  mounted(root, () => new App(root, model.get("payload") as Payload, new Kernel(model), false));
}
