// Measures side by side for one target: two texts shaded, one row for each measure, how far they
// agree and what they dispute.

import { disputes } from "../agreement";
import { css, shade } from "../colour";
import type { Context, View } from "../context";
import { h, isolated, percent, refill, selectOf, short, tableBehind } from "../dom";
import { largest, ranked } from "../measured";
import { fitted, prepared, type Painter } from "../painter";
import {
  agreement,
  agreementTable,
  agreementWord,
  disputeRows,
  farthest,
  groupName,
  groupsOf,
  letter,
  opinionsOf,
  type Group,
  type Opinion,
} from "./opinions";
import { listed, Reading } from "./reading";

const LEFT = 190; // pixels for the names, at most
const ROW = 22;

export class CompareView implements View {
  readonly element: HTMLElement;
  private readonly headline = h("h1", { class: "answer" });
  private readonly choices = h("div", { class: "pair-choices" });
  private readonly readings: [Reading, Reading];
  private readonly names = [h("h2", {}), h("h2", {})];
  private readonly tops = [h("p", { class: "quiet" }), h("p", { class: "quiet" })];
  private readonly canvas: HTMLCanvasElement;
  private readonly table: HTMLDetailsElement;
  private readonly disputed = h("table", { class: "disputes" });
  private readonly matrix = h("div", {
    class: "wide matrix",
    tabindex: "0",
    role: "region",
    "aria-label": "Agreement of measures",
  });
  private readonly leftOut = h("details", { class: "behind" });
  private context!: Context;
  private rowsShown: Opinion[] = [];
  private groups: Group[] = [];
  private readonly order = h("p", { class: "quiet hint" });
  private readonly members = h("p", { class: "quiet members" });
  private cell = 10;
  private left = LEFT;

  constructor() {
    const reading = () =>
      new Reading("The text: choose a target", {
        choose: (g) => this.choose(g),
        close: (segment) => this.close(segment),
        point: (g, e) => this.point(g, e),
      });
    this.readings = [reading(), reading()];
    this.canvas = h("canvas", {
      role: "img",
      tabindex: "0",
      onmousemove: (e: MouseEvent) => this.over(e),
      onmouseleave: () => this.context.actions.tip(null, []),
      onclick: (e: MouseEvent) => this.pick(Math.floor(e.offsetY / ROW)),
    });
    this.table = tableBehind("Measures", () => this.rows());
    const side = (i: 0 | 1) =>
      h("section", { class: "pair-side" }, this.names[i]!, this.readings[i].element, this.tops[i]!);
    this.element = h(
      "div",
      { class: "compare-view" },
      this.headline,
      this.choices,
      h("div", { class: "pair" }, side(0), side(1)),
      h("h2", {}, "Largest differences"),
      this.disputed,
      h("h2", {}, "All measures for this target"),
      this.order,
      this.canvas,
      this.members,
      this.table,
      h("h2", {}, "Rank agreement"),
      h(
        "p",
        { class: "quiet hint" },
        "Spearman's rank correlation over all sources except the target itself.",
      ),
      this.matrix,
      this.leftOut,
    );
  }

  private choose(group: number): void {
    const { start, stop, segment } = this.context.sources.groups[group]!;
    const { open } = this.context.state;
    if (segment !== null) return this.context.actions.set({ open: [...open, segment] });
    if (!this.context.current.square) return;
    for (let at = start; at < stop; at++)
      if (this.context.current.holds(at))
        return this.context.actions.set({ target: at, node: null });
  }

  private close(segment: number): void {
    const open = this.context.state.open.filter((each) => each !== segment);
    this.context.actions.set({ open });
  }

  private point(group: number | null, event: MouseEvent | null): void {
    if (group === null || !event) return this.context.actions.tip(null, []);
    const label = this.context.sources.label(group);
    this.context.actions.tip(event, [
      label,
      ...this.pair().map(
        (each) => `${this.context.name(each.measured)}: ${percent(each.values[group]!)}`,
      ),
    ]);
  }

  private pair(): Opinion[] {
    const { state, measured } = this.context;
    return [state.map, state.other ?? state.map]
      .map((i) => this.rowsShown.find((row) => row.measured === measured[i])!)
      .filter(Boolean);
  }

  update(context: Context): void {
    this.context = context;
    this.rowsShown = opinionsOf(context);
    const { state, measured } = context;
    const other = farthest(context, this.rowsShown);
    if (!other) {
      this.refuse();
      return;
    }
    this.element.classList.remove("alone");
    const possible = this.rowsShown.map((each) => measured.indexOf(each.measured));
    if (state.other === null || state.other === state.map || !possible.includes(state.other))
      state.other = measured.indexOf(other.measured);
    this.choices.replaceChildren(
      selectOf(
        `Compare ${context.name(context.current)} with`,
        possible.filter((i) => i !== state.map).map((i) => [String(i), context.name(measured[i]!)]),
        String(state.other),
        (v) => context.actions.set({ other: Number(v) }),
      ),
    );
    this.sides();
    this.headlines();
    this.disputed.replaceChildren(...disputeRows(context, this.pair()));
    this.groups = groupsOf(context, this.rowsShown);
    this.explainOrder();
    this.draw();
    this.matrix.replaceChildren(agreementTable(context, this.groups));
    this.fillLeftOut();
    refill(this.table, () => this.rows());
  }

  private explainOrder(): void {
    const { context, groups } = this;
    const cue = context.cueGroup;
    const by =
      cue === null
        ? `by their agreement with ${context.name(context.current)}`
        : `by the rank that they give ${isolated(short(context.sources.label(cue)))}`;
    this.order.textContent =
      `Sorted ${by}. Each row is shaded by its own largest share. Hover over a cell ` +
      "for its number. Click a row to compare with it.";
    const several = groups.filter((group) => group.length > 1);
    this.members.hidden = several.length === 0;
    const names = several.map((group) => {
      const others = group.slice(1).map((each) => context.name(each.measured));
      return `${context.name(group[0]!.measured)} +${others.length}: ${others.join(", ")}`;
    });
    this.members.textContent =
      "Measures with nearly the same ranking (correlation 0.95 or more) share a row. " +
      `${names.join(". ")}.`;
  }

  private refuse(): void {
    this.element.classList.add("alone");
    this.rowsShown = [];
    const { measure } = this.context.current.entry;
    this.headline.textContent = `Only ${measure} has this target on this page.`;
    this.choices.replaceChildren(
      h(
        "p",
        { class: "quiet" },
        "To see where measures disagree, save a page with several measures of the same text: " +
          "maps.to_html(path, *others), or mixlens compare … --html out.html.",
      ),
    );
  }

  private sides(): void {
    const { context } = this;
    this.pair().forEach(({ measured, values }, i) => {
      const scale = largest(values, context.own);
      this.readings[i]!.show(context.sources, context);
      this.readings[i]!.shadeBy(context, values, scale, context.own, true);
      this.names[i]!.textContent = context.name(measured);
      const top = ranked(values, context.own)
        .slice(0, 3)
        .map((each): [string, number] => [context.sources.label(each.group), each.value]);
      this.tops[i]!.textContent =
        `${measured.depthName(context.depthFor(measured))}: ${listed(top)}`;
    });
  }

  private headlines(): void {
    const { context } = this;
    const pair = this.pair();
    const rows = pair.map((each) => each.values);
    const rank = agreement(context, pair[0]!, pair[1]!);
    const dispute = disputes(rows, context.own)[0];
    const target = h("b", { class: "outlined" }, short(context.targets.label(context.targetGroup)));
    const [first, second] = pair.map((each) => context.name(each.measured));
    this.headline.replaceChildren(
      "For ",
      target,
      `, ${first} and ${second} ${agreementWord(rank)} (rank correlation ${rank.toFixed(2)})`,
    );
    if (dispute)
      this.headline.append(
        "; they differ most on ",
        h("b", {}, short(context.sources.label(dispute.group))),
        `: ${percent(rows[0]![dispute.group]!)} against ${percent(rows[1]![dispute.group]!)}.`,
      );
  }

  private draw(): void {
    const width = this.element.clientWidth || 900;
    const height = this.height(width);
    this.painted(prepared(this.canvas, width, height), this.context, 0);
    this.canvas.setAttribute(
      "aria-label",
      `${this.rowsShown.length} measures in ${this.groups.length} rows by ` +
        `${this.context.sources.size} sources: the shares of ` +
        "the target, as a heat map. Click a row to compare with its measure.",
    );
  }

  private height(width: number): number {
    this.left = Math.min(LEFT, Math.round(width * 0.36));
    this.cell = (width - this.left) / this.context.sources.size;
    return this.groups.length * ROW + (this.cell >= 13 ? 74 : 6);
  }

  private painted(painter: Painter, context: Context, y: number): void {
    const { palette, own, sources, state, measured } = context;
    this.groups.forEach((group, row) => {
      const { values } = group[0]!;
      const top = y + row * ROW;
      const scale = largest(values, own) || 1;
      const pair = [measured[state.map], measured[state.other ?? -1]];
      const chosen = group.some((each) => pair.includes(each.measured));
      painter.text(
        this.left - 10,
        top + 15,
        fitted(painter, `${letter(row)}  ${groupName(context, group)}`, 13, this.left - 16),
        {
          size: 13,
          align: "right",
          fill: chosen ? palette.ink : palette.quiet,
          weight: chosen ? 700 : 400,
        },
      );
      for (let i = 0; i < sources.size; i++) {
        const t = i === own ? 0 : values[i]! / scale;
        painter.rect(
          this.left + i * this.cell,
          top,
          Math.max(this.cell - (this.cell > 6 ? 1 : 0), 0.6),
          ROW - 2,
          css(shade(palette, t)),
        );
      }
    });
    const bottom = y + this.groups.length * ROW;
    if (own >= 0 && this.cell >= 3)
      painter.rect(
        this.left + own * this.cell,
        y - 0.5,
        this.cell - 1,
        bottom - y - 1,
        null,
        palette.ink,
        1.5,
        2,
      );
    if (this.cell >= 13)
      sources.groups.forEach((_, i) =>
        painter.text(
          this.left + (i + 0.5) * this.cell + 4,
          bottom + 12,
          fitted(painter, sources.label(i), 12, 88),
          {
            size: 12,
            rotate: -45,
            align: "right",
            fill: i === own ? palette.ink : palette.quiet,
            weight: i === own ? 700 : 400,
          },
        ),
      );
  }

  private over(event: MouseEvent): void {
    const members = this.groups[Math.floor(event.offsetY / ROW)];
    const row = members?.[0];
    const group = Math.floor((event.offsetX - this.left) / this.cell);
    const inside = row && group >= 0 && group < this.context.sources.size;
    this.canvas.style.cursor = row ? "pointer" : "";
    this.context.actions.tip(
      inside ? event : null,
      inside
        ? [
            `${isolated(this.context.sources.label(group))}: ${percent(row.values[group]!)}`,
            members!.map((each) => this.context.name(each.measured)).join(", "),
          ]
        : [],
    );
  }

  private pick(row: number): void {
    const measured = this.groups[row]?.[0]?.measured;
    const number = measured ? this.context.measured.indexOf(measured) : -1;
    if (number >= 0 && number !== this.context.state.map)
      this.context.actions.set({ other: number });
  }

  private fillLeftOut(): void {
    const left = Object.entries(this.context.payload.left_out ?? {});
    this.leftOut.hidden = left.length === 0;
    this.leftOut.replaceChildren(
      h("summary", {}, `${left.length} measures left out`),
      h("dl", {}, ...left.flatMap(([name, reason]) => [h("dt", {}, name), h("dd", {}, reason)])),
    );
  }

  paint(painter: Painter, context: Context, width: number): number {
    if (this.rowsShown.length < 2) return 0;
    painter.text(0, 20, fitted(painter, this.headline.textContent ?? "", 16, width), {
      size: 16,
      weight: 600,
      fill: context.palette.ink,
    });
    let y = 40;
    this.pair().forEach(({ measured, values }, i) => {
      painter.text(0, y + 14, context.name(measured), { size: 13, fill: context.palette.quiet });
      y +=
        20 +
        this.readings[i]!.paint(
          painter,
          context,
          0,
          y + 20,
          width,
          values,
          largest(values, context.own),
          context.own,
        ) +
        10;
    });
    const height = this.height(width);
    this.painted(painter, context, y);
    this.height(this.element.clientWidth || 900);
    return y + height;
  }

  rows(): string[][] {
    const { context, rowsShown } = this;
    return [
      ["source", ...rowsShown.map((row) => context.name(row.measured))],
      ...context.sources.groups.map((_, i) => [
        context.sources.label(i),
        ...rowsShown.map((row) => row.values[i]!.toPrecision(3)),
      ]),
    ];
  }
}
