// The footer: model, measure, options, citation, and the shares that the page does not have.

import type { Context } from "./context";
import { h, percent } from "./dom";

export function answerFoot(context: Context): HTMLElement[] {
  const { methods, provenance, uses_template } = context.answer!.about;
  const { name, reading, citation, removes } = methods[context.state.method]!;
  const model = (provenance.name ?? provenance.model ?? "") as string;
  const line = [
    model && `${model}${provenance.dtype ? ` in ${String(provenance.dtype)}` : ""}`,
    `answer ${String(provenance.answer ?? "generated")}`,
    provenance.cut_at && `cut after ${String(provenance.cut_at)} tokens`,
    `${name}, ${reading}`,
    citation,
    `mixlens ${context.payload.mixlens}`,
  ];
  const said = [
    removes
      ? "A score is the effect of the document on the probability of the answer. Percentages ignore " +
        "negative scores."
      : "A percentage is a share of the scores of all documents. It is neither a probability nor a " +
        "proof. A method can miss the evidence, and shares depend on the length of documents.",
  ];
  if (uses_template) said.push("mixlens wrote the prompt with the chat template of the model.");
  return [...said.map((text) => h("p", {}, text)), h("p", {}, line.filter(Boolean).join(" · "))];
}

export function footLines(context: Context): HTMLElement[] {
  const { current, payload } = context;
  const { provenance, citation, summary, notes, measure, joined } = current.entry;
  const options = Object.entries((provenance.options as Record<string, unknown>) ?? {})
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key}=${String(value)}`)
    .join(", ");
  const steps = ((provenance.steps as string[]) ?? []).join(" → ");
  const model = (provenance.name ?? provenance.model ?? "") as string;
  const line = [
    model && `${model}${provenance.dtype ? ` in ${String(provenance.dtype)}` : ""}`,
    `${measure}${options ? ` (${options})` : ""}${steps ? ` → ${steps}` : ""}`,
    joined && current.isJoined(context.state.depth) && `layers joined by ${joined.how}`,
    provenance.site as string,
    citation,
    "shares in float16, three digits",
    `mixlens ${payload.mixlens}`,
  ];
  const said = [...(notes ?? [])];
  if (!current.complete) {
    const kept = Array.from(context.incoming()).reduce((sum, v) => sum + Math.abs(v), 0);
    said.push(
      "This page has only the largest shares of each row and column. For this target " +
        `${percent(Math.max(0, 1 - kept))} is missing.`,
    );
  }
  return [
    h("p", {}, h("b", {}, measure), summary ? `: ${summary}.` : "."),
    h("p", {}, line.filter(Boolean).join(" · ")),
    ...said.map((note) => h("p", {}, note)),
  ];
}
