// The text as text, in reading order: one element for each group, shaded by its share.

import { css, inkOn, shade } from "../colour";
import type { Context } from "../context";
import { h, isolated, percent } from "../dom";
import type { Group, Grouping } from "../groups";
import { fitted, type Painter } from "../painter";
import { visible } from "../visible";

export const RTL = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** By the first letter that has a direction. */
function isRightToLeft(shown: string[]): boolean {
  for (const piece of shown) {
    const letter = /\p{L}/u.exec(piece.replace(/^[[<].*[\]>]$/, ""));
    if (letter) return RTL.test(letter[0]);
  }
  return false;
}

/** What lies between two tokens: spaces and line breaks. */
function between(gap: string): Node[] {
  return gap.split("\n").flatMap((part, i) => {
    const found: Node[] = i ? [h("br")] : [];
    if (part) found.push(document.createTextNode(part.replace(/\s+/g, " ")));
    return found;
  });
}

/** Names above segments, by their first token: of open ones, and of all that have names. */
function headings(grouping: Grouping): Map<number, HTMLElement> {
  const found = new Map<number, HTMLElement>();
  const folding = grouping.unit === "segments";
  grouping.text.segments?.forEach(([start, stop, name], segment) => {
    if (folding && grouping.open.has(segment))
      found.set(
        start,
        h(
          "div",
          { class: "fold", "data-fold": segment, "aria-hidden": "true", title: "Close" },
          `▾ ${visible(name ?? "")} ${stop - start} tokens`,
        ),
      );
    else if (!folding && name !== undefined)
      found.set(start, h("div", { class: "segment-name" }, visible(name)));
  });
  return found;
}

/** A list of groups that can be walked with the arrow keys; a click or Enter chooses. */
export class Reading {
  readonly element: HTMLElement;
  private grouping: Grouping | null = null;
  private items: HTMLElement[] = [];
  private shades: number[] = [];
  private palette: unknown = null;
  private marked = -1;
  private gone: ReadonlySet<number> | null = null;
  private inSight: HTMLElement | null = null;

  constructor(
    name: string,
    private readonly handlers: {
      choose(group: number): void;
      close?(segment: number): void;
      point(group: number | null, event: MouseEvent | null): void;
    },
    private readonly ofTargets = false,
  ) {
    this.element = h("div", {
      class: "reading",
      role: "listbox",
      "aria-label": name,
      onclick: (e: Event) => this.at(e, (g) => this.handlers.choose(g)),
      onmousemove: (e: MouseEvent) => this.over(e),
      onmouseleave: (e: MouseEvent) => this.handlers.point(null, e),
      onkeydown: (e: KeyboardEvent) => this.key(e),
      onfocusin: (e: FocusEvent) => this.at(e, (g) => this.handlers.point(g, null)),
      onfocusout: () => this.handlers.point(null, null),
    });
  }

  private at(event: Event, then: (group: number) => void): void {
    const fold = (event.target as HTMLElement).closest<HTMLElement>("[data-fold]");
    if (fold && event.type === "click") this.handlers.close?.(Number(fold.dataset.fold));
    const item = (event.target as HTMLElement).closest<HTMLElement>("[data-group]");
    if (item) then(Number(item.dataset.group));
  }

  private over(event: MouseEvent): void {
    const item = (event.target as HTMLElement).closest<HTMLElement>("[data-group]");
    const group = item ? Number(item.dataset.group) : null;
    this.handlers.point(group, event);
  }

  private key(event: KeyboardEvent): void {
    const now = this.items.indexOf(event.target as HTMLElement);
    if (now < 0) return;
    const forwards = this.element.matches(":dir(rtl)") ? "ArrowLeft" : "ArrowRight";
    const backwards = forwards === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
    const steps: Record<string, number> = {
      [forwards]: now + 1,
      [backwards]: now - 1,
      ArrowDown: now + 1,
      ArrowUp: now - 1,
      Home: 0,
      End: this.items.length - 1,
    };
    if (event.key === "Enter" || event.key === " ") this.handlers.choose(now);
    else if (event.key in steps) {
      const next = Math.max(0, Math.min(this.items.length - 1, steps[event.key]!));
      this.focus(next);
    } else return;
    event.preventDefault();
  }

  private focus(number: number): void {
    for (const item of this.items) if (item.tabIndex === 0) item.tabIndex = -1;
    this.items[number]!.tabIndex = 0;
    this.items[number]!.focus();
  }

  /** Elements are made again only if the groups changed. */
  show(grouping: Grouping, context: Context): void {
    if (grouping !== this.grouping) {
      this.build(grouping, context);
      this.palette = this.gone = null;
    }
    if (context.palette !== this.palette) {
      this.shades = new Array(grouping.size).fill(Number.NaN);
      this.palette = context.palette;
    }
    const gone = context.goneFrom(grouping.text);
    if (gone === this.gone) return;
    this.gone = gone;
    this.items.forEach((item, i) => {
      const { start, stop } = grouping.groups[i]!;
      let all = true;
      for (let at = start; at < stop; at++) all &&= gone.has(at);
      item.classList.toggle("left-out", all);
    });
  }

  /** On a side of targets only those that were measured are shown. */
  private holds(context: Context, { start, stop }: Group): boolean {
    if (!this.ofTargets) return true;
    for (let at = start; at < stop; at++) if (context.current.holds(at)) return true;
    return false;
  }

  /** Are all its tokens seen elsewhere, as patches of a picture? */
  get isEmpty(): boolean {
    return !this.element.firstChild;
  }

  private build(grouping: Grouping, context: Context): void {
    const active = this.items.indexOf(
      (this.element.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement,
    );
    this.grouping = grouping;
    this.marked = -1;
    const { text } = grouping;
    const pieces: Node[] = [];
    const heads = headings(grouping);
    this.items = grouping.groups.map((group, number) => {
      const unseen = context.isPatch(text, group.start) || !this.holds(context, group);
      const head = heads.get(group.start);
      if (head) pieces.push(head);
      else if (!unseen && group.segment === null) pieces.push(...between(text.gaps[group.start]!));
      const special = grouping.special(number) && !/mask/i.test(text.labels[group.start]!);
      const item = h("span", {
        class: ["token", special && "special", group.segment !== null && "segment"]
          .filter(Boolean)
          .join(" "),
        role: "option",
        dir: "auto",
        tabindex: "-1",
        "aria-selected": "false",
        "data-group": number,
      });
      const label = grouping.label(number);
      item.append(label);
      if (group.segment !== null)
        item.append(h("small", {}, `${group.stop - group.start} tokens`), h("small", {}));
      if (!unseen) pieces.push(item);
      if (!unseen && label.endsWith("↵")) pieces.push(h("br"));
      return item;
    });
    this.element.replaceChildren(...pieces);
    this.element.dir = isRightToLeft(text.shown) ? "rtl" : "ltr";
    const size = this.element.querySelectorAll(".token").length;
    this.element.dataset.size =
      size <= 40 ? "large" : size <= 150 ? "middle" : size <= 700 ? "small" : "tiny";
    const first = this.items[Math.max(0, active)] ?? this.items[0];
    if (first) first.tabIndex = 0;
    if (active >= 0) first?.focus();
  }

  /** Scrolls to a group and marks it for a moment. */
  find(group: number): void {
    const item = this.items[group];
    if (!item) return;
    this.reveal(group);
    item.classList.remove("found");
    void item.offsetWidth; // so that the mark begins anew
    item.classList.add("found");
    const seen = item.getBoundingClientRect();
    if (seen.top < 0 || seen.bottom > window.innerHeight) item.scrollIntoView({ block: "center" });
  }

  /** Shades groups by value / scale; `target` is outlined, -1 for none. */
  shadeBy(
    context: Context,
    values: ArrayLike<number>,
    scale: number,
    target: number,
    pinned: boolean,
  ): void {
    this.items.forEach((item, i) => {
      const t = scale > 0 && i !== target ? Math.round((values[i]! / scale) * 64) / 64 : 0;
      if (this.shades[i] === t) return;
      this.shades[i] = t;
      const colour = shade(context.palette, t);
      item.style.backgroundColor = t === 0 ? "" : css(colour);
      item.style.color = t === 0 ? "" : inkOn(colour);
      if (this.grouping!.groups[i]!.segment !== null)
        item.lastElementChild!.textContent = percent(values[i]!);
    });
    if (pinned && target >= 0 && this.inSight !== this.items[target]) this.reveal(target);
    if (this.marked >= 0) this.items[this.marked]?.classList.remove("target", "pointed");
    this.marked = target;
    const item = this.items[target];
    item?.classList.add("target");
    item?.classList.toggle("pointed", !pinned);
    if (pinned) {
      const active = (this.element.getRootNode() as Document).activeElement;
      const inside = active && this.element.contains(active);
      this.items.forEach((each, i) => {
        const chosen = String(i === target);
        if (each.getAttribute("aria-selected") !== chosen)
          each.setAttribute("aria-selected", chosen);
        if (!inside && (each.tabIndex === 0) !== (i === Math.max(0, target)))
          each.tabIndex = i === Math.max(0, target) ? 0 : -1;
      });
    }
  }

  /** Scrolls the text, not the page, so that a newly chosen target is seen. */
  private reveal(target: number): void {
    const item = this.items[target]!;
    this.inSight = item;
    const { element } = this;
    const top = item.offsetTop - element.offsetTop;
    const above = top < element.scrollTop;
    const below = top + item.offsetHeight > element.scrollTop + element.clientHeight;
    if (above || below) element.scrollTop = top - element.clientHeight / 2;
  }

  /** What a screen reader says of the group that has the focus. */
  describe(group: number, words: string): void {
    this.items[group]?.setAttribute("aria-label", words);
  }

  /** Draws the same into a file. */
  paint(
    painter: Painter,
    context: Context,
    x: number,
    y: number,
    width: number,
    values: ArrayLike<number>,
    scale: number,
    target: number,
  ): number {
    const grouping = this.grouping!;
    const { palette } = context;
    const size = grouping.size <= 40 ? 22 : grouping.size <= 150 ? 17 : 13;
    const line = size * 1.8;
    const labels = grouping.groups.map((_, i) =>
      fitted(painter, grouping.label(i), size, width - 12),
    );
    const rtl = isRightToLeft(grouping.text.shown);
    const names = headings(grouping);
    let at = 0;
    let top = y + line * 0.8;
    labels.forEach((label, i) => {
      const { start } = grouping.groups[i]!;
      if (context.isPatch(grouping.text, start)) return;
      if (!this.holds(context, grouping.groups[i]!)) return;
      const name = names.get(start)?.textContent;
      if (name) {
        top += at > 0 ? line : 0;
        painter.text(x, top, name, { size: 12, fill: palette.quiet });
        [at, top] = [0, top + line];
      }
      const gap = name ? "" : grouping.text.gaps[start]!;
      const wide = painter.width(label, size) + 8;
      if (at > 0 && (gap.includes("\n") || at + wide > width)) {
        at = 0;
        top += line;
      } else if (at > 0 && gap) at += size * 0.16;
      const t = scale > 0 && i !== target ? values[i]! / scale : 0;
      const colour = shade(palette, t);
      const left = rtl ? x + width - at - wide : x + at;
      const outline = i === target ? palette.ink : undefined;
      painter.rect(
        left,
        top - size * 1.05,
        wide,
        size * 1.45,
        t ? css(colour) : null,
        outline,
        2,
        5,
      );
      const fill = t
        ? inkOn(colour)
        : grouping.special(i) && i !== target
          ? palette.quiet
          : palette.ink;
      painter.text(left + wide / 2, top, label, {
        size,
        fill,
        align: "center",
        rtl: RTL.test(label),
      });
      at += wide;
    });
    return top + line * 0.5 - y;
  }
}

/** "keys 31 %, cabinet 12 % and The 8 %" */
export function listed(found: [string, number][]): string {
  const parts = found.map(([label, value]) => `${isolated(label)} ${percent(value)}`);
  const last = parts.pop() ?? "nothing";
  return parts.length ? `${parts.join(", ")} and ${last}` : last;
}
