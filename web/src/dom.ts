// Elements are made one by one and text is only ever text: nothing here parses markup.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const found = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) found.addEventListener(key.slice(2), value as EventListener);
    else if (key === "class") found.className = String(value);
    else found.setAttribute(key, value === true ? "" : String(value));
  }
  found.append(
    ...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false),
  );
  return found;
}

export function percent(value: number): string {
  const size = Math.abs(value * 100);
  if (size > 0 && size < 0.005) return "under 0.01\u00a0%";
  const digits = size >= 9.95 ? 0 : size >= 0.095 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}\u00a0%`;
}

/** A label inside a sentence, whose direction must not reorder what is around it. */
export const isolated = (label: string): string => `\u2068${label}\u2069`;

export function selectOf(
  label: string,
  options: [string, string][],
  chosen: string,
  choose: (value: string) => void,
): HTMLLabelElement {
  const list = h("select", {
    onchange: (event: Event) => choose((event.target as HTMLSelectElement).value),
  });
  for (const [value, name] of options)
    list.append(h("option", { value, selected: value === chosen }, name));
  return h("label", { class: "field" }, h("span", {}, label), list);
}

/** Rows as a table that is behind a canvas, for those who cannot see it. Made when opened. */
export function tableBehind(name: string, rows: () => string[][]): HTMLDetailsElement {
  const box = h("details", { class: "behind" }, h("summary", {}, `${name} as a table`));
  box.addEventListener("toggle", () => {
    if (box.open) fill(box, rows());
  });
  return box;
}

export function refill(box: HTMLDetailsElement, rows: () => string[][]): void {
  if (box.open) fill(box, rows());
}

const MOST_ROWS = 400;

function fill(box: HTMLDetailsElement, [head, ...rows]: string[][]): void {
  box.querySelector("div")?.remove();
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...(head ?? []).map((cell) => h("th", { scope: "col" }, cell)))),
    h(
      "tbody",
      {},
      ...rows
        .slice(0, MOST_ROWS)
        .map((row) =>
          h(
            "tr",
            {},
            ...row.map((cell, i) => (i ? h("td", {}, cell) : h("th", { scope: "row" }, cell))),
          ),
        ),
    ),
  );
  const rest = rows.length - MOST_ROWS;
  box.append(
    h(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" },
      table,
      rest > 0 && h("p", {}, `${rest} more rows are in the CSV file.`),
    ),
  );
}
