// Boxes to tick.

import { h } from "./dom";

/** A list of boxes, some of them ticked. */
export function checks(
  legend: string,
  options: { name: string; summary?: string }[],
  ticked: ReadonlySet<string>,
): HTMLElement {
  return h(
    "fieldset",
    { class: "checks" },
    h("legend", { class: "unseen" }, legend),
    ...options.map(({ name, summary }) =>
      h(
        "label",
        { title: summary ?? "" },
        h("input", { type: "checkbox", value: name, checked: ticked.has(name) }),
        ` ${name}`,
      ),
    ),
  );
}

/** The values of the boxes that are ticked. */
export function tickedIn(element: HTMLElement): string[] {
  return [...element.querySelectorAll<HTMLInputElement>("fieldset input:checked")].map(
    (box) => box.value,
  );
}
