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

/** The element with styles, which a page may set from a script but not in markup. */
export function styled<E extends HTMLElement>(element: E, styles: Record<string, string>): E {
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
  return element;
}

/** A label in a sentence: a long one is cut. */
export function short(label: string): string {
  const letters = [...label];
  return letters.length > 40 ? `${letters.slice(0, 39).join("")}…` : label;
}

/** Things in a row: "a, b and c". */
export function inARow(parts: Child[][]): Child[] {
  const last = parts.length - 1;
  return parts.flatMap((part, i) => [i === 0 ? "" : i === last ? " and " : ", ", ...part]);
}

export function percent(value: number): string {
  const size = Math.abs(value * 100);
  if (size > 0 && size < 0.005) return "under 0.01\u00a0%";
  const digits = size >= 9.95 ? 0 : size >= 0.095 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}\u00a0%`;
}

/** A label inside a sentence, whose direction must not reorder what is around it. */
export const isolated = (label: string): string => `\u2068${label}\u2069`;

/** A list to choose from: value, name and, if there are groups, the group's name. */
export function selectOf(
  label: string,
  options: [string, string, string?][],
  chosen: string,
  choose: (value: string) => void,
): HTMLLabelElement {
  const list = h("select", {
    onchange: (event: Event) => choose((event.target as HTMLSelectElement).value),
  });
  const groups = new Map<string, HTMLElement>();
  for (const [value, name, group] of options) {
    const place = group ? (groups.get(group) ?? h("optgroup", { label: group })) : list;
    if (group) groups.set(group, place);
    if (place !== list) list.append(place);
    place.append(h("option", { value, selected: value === chosen }, name));
  }
  return h("label", { class: "field" }, h("span", {}, label), list);
}

/** A canvas that the pointer and the arrow keys move in; a click or Enter chooses. */
export function canvasOf(acts: {
  over(event: MouseEvent): void;
  leave(): void;
  choose(): void;
  /** Steps to the right and down. */
  step(right: number, down: number): void;
}): HTMLCanvasElement {
  const steps: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  };
  return h("canvas", {
    tabindex: "0",
    role: "img",
    onmousemove: acts.over,
    onmouseleave: acts.leave,
    onclick: acts.choose,
    onkeydown: (event: KeyboardEvent) => {
      const step = steps[event.key];
      if (event.key === "Enter") acts.choose();
      if (!step) return;
      event.preventDefault();
      acts.step(...step);
    },
  });
}

/** A number kept between zero and the last of a count. */
export const within = (value: number, count: number): number =>
  Math.max(0, Math.min(count - 1, value));

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
