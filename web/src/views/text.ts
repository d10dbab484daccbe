// The first screen: the text, its target and sources, the layers below, the ranks next to it.

import type { Context, View } from "../context";
import { h, inARow, isolated, percent, short } from "../dom";
import { largest, ranked, type Ranked } from "../measured";
import { fitted, type Painter } from "../painter";
import { factLines } from "./facts";
import { HeatPicture, heatScale } from "./heat";
import { Layers } from "./layers";
import { bar } from "./opinions";
import { PatchPicture } from "./picture";
import { rampLegend } from "./ramp";
import { listed, Reading } from "./reading";
import { TimeStrip } from "./strip";

const SHOWN = 12;
const SHOWN_OUT = 6;

export class TextView implements View {
  readonly element: HTMLElement;
  private readonly answer = h("h1", { class: "answer" });
  private readonly facts = h("div", { class: "facts" });
  private readonly legend = h("p", { class: "legend" });
  private readonly picture = new PatchPicture();
  private readonly strip = new TimeStrip();
  private readonly gallery = h("div", { class: "gallery" });
  private heats: HeatPicture[] = [];
  private readonly sourceName = h("h2", {}, "Source");
  private readonly targetName = h("h2", {}, "Target");
  private readonly sourceText: Reading;
  private readonly targetText: Reading;
  private readonly layers = new Layers();
  private readonly inList = h("table", { class: "ranked" });
  private readonly outList = h("table", { class: "ranked" });
  private readonly outName = h("h2", {});
  private readonly inName = h("h2", {});
  private readonly rest = h("p", { class: "quiet" });
  private context!: Context;
  /** Of two sides: the source that is pointed at, whose way into the targets is shown. */
  private pointedSource: number | null = null;

  constructor() {
    this.sourceText = new Reading("The text: choose a target", {
      choose: (group) => this.choose(group, true),
      point: (group, event) => this.point(group, event, true),
      close: (segment) => this.close(segment),
    });
    this.targetText = new Reading(
      "The target side: choose a target",
      {
        choose: (group) => this.choose(group, false),
        point: (group, event) => this.point(group, event, false),
        close: (segment) => this.close(segment),
      },
      true,
    );
    this.element = h(
      "div",
      { class: "text-view" },
      this.answer,
      this.facts,
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "main" },
          this.targetName,
          this.targetText.element,
          this.sourceName,
          this.picture.element,
          this.gallery,
          this.strip.element,
          this.sourceText.element,
          this.legend,
          this.layers.element,
        ),
        h(
          "aside",
          { class: "side", "aria-label": "Ranked sources" },
          this.inName,
          this.inList,
          this.rest,
          this.outName,
          this.outList,
        ),
      ),
    );
  }

  private choose(group: number, source: boolean): void {
    const { context } = this;
    const grouping = source ? context.sources : context.targets;
    const { start, stop, segment } = grouping.groups[group]!;
    if (segment !== null) {
      context.actions.set({ open: [...context.state.open, segment] });
      return;
    }
    if (source && !context.current.square) return;
    for (let at = start; at < stop; at++)
      if (context.current.holds(at)) {
        context.actions.set({ target: at, node: null });
        context.actions.announce(this.sentence());
        return;
      }
  }

  /** Shows where a source of the list is; a closed segment opens. */
  private find(group: number): void {
    const { segment, start } = this.context.sources.groups[group]!;
    if (segment !== null) this.choose(group, true);
    this.sourceText.find(this.context.sources.of[start]!);
  }

  private close(segment: number): void {
    const open = this.context.state.open.filter((each) => each !== segment);
    this.context.actions.set({ open });
  }

  private point(group: number | null, event: MouseEvent | null, source: boolean): void {
    const { context } = this;
    const two = !context.current.square;
    const was = this.pointedSource;
    this.pointedSource = two && source ? group : null;
    if (this.pointedSource !== was) this.shaded();
    if (group === null) {
      context.actions.tip(null, []);
      context.actions.point(null);
      return;
    }
    const grouping = source ? context.sources : context.targets;
    const { start, stop } = grouping.groups[group]!;
    const isTarget = !source || context.current.square;
    let held = -1;
    for (let at = start; at < stop && held < 0; at++)
      if (isTarget && context.current.holds(at)) held = at;
    const words = this.words(group, source);
    if (event) context.actions.tip(event, words);
    else (source ? this.sourceText : this.targetText).describe(group, words.join(". "));
    context.actions.point(held < 0 ? null : held);
  }

  /** What a pointed-at token is to the chosen target. */
  private words(group: number, source: boolean): string[] {
    const { context } = this;
    const was = context.preview;
    context.preview = null;
    const label = (source ? context.sources : context.targets).label(group);
    const target = context.targets.label(context.targetGroup);
    const found = [label];
    if (source) {
      const values = context.incoming();
      const place = ranked(values, context.own).findIndex((each) => each.group === group);
      if (group === context.own)
        found.push(
          context.ownShare ? `the target; ${percent(values[group]!)} from itself` : "the target",
        );
      else if (values[group])
        found.push(
          `${percent(values[group]!)} of ${target}${place >= 0 ? `, rank ${place + 1}` : ""}`,
        );
      else found.push(`contributes nothing to ${target}`);
    }
    context.preview = was;
    return found;
  }

  update(context: Context): void {
    this.context = context;
    const { current, sources, targets, payload } = context;
    const two = !current.square;
    this.picture.element.hidden = !payload.image;
    this.hang();
    const speech = Boolean(current.sources.seconds);
    this.strip.element.hidden = !speech;
    this.targetName.hidden = !two;
    this.sourceName.hidden = !two || Boolean(current.sources.segments?.[0]?.[2]);
    this.targetText.element.hidden = !two;
    this.sourceText.show(sources, context);
    this.sourceText.element.hidden = speech || this.sourceText.isEmpty;
    if (two) this.targetText.show(targets, context);
    this.shaded();
    this.layers.update(context);
  }

  /** Puts up the pictures of a text that has several. */
  private hang(): void {
    const pictures = this.context.picturesOf(this.context.current.sources);
    if (pictures.every((each, i) => each === this.heats[i]?.picture)) {
      if (pictures.length === this.heats.length) return;
    }
    this.heats = pictures.map((each) => new HeatPicture(each));
    this.gallery.replaceChildren(...this.heats.map((each) => each.element));
  }

  /** Shades several pictures by the shares of their tokens. */
  private heat(values: ArrayLike<number>): void {
    const { context } = this;
    const { sources } = context;
    const value = (token: number) => {
      const { start, stop } = sources.groups[sources.of[token]!]!;
      return values[sources.of[token]!]! / (stop - start);
    };
    const scale = heatScale(this.heats, value);
    for (const picture of this.heats) picture.show(context, value, scale);
  }

  pointed(context: Context): void {
    this.context = context;
    this.shaded();
    this.layers.update(context);
  }

  private shaded(): void {
    const { context } = this;
    const { own, sources, targets, targetGroup, current } = context;
    const values = context.incoming();
    const scale = largest(values, own);
    const pinned = context.preview === null;
    this.sourceText.shadeBy(context, values, scale, own, pinned);
    if (!current.square) this.shadeTargets(targetGroup, pinned);
    this.picture.show(context, values, scale);
    this.heat(values);
    this.strip.show(context, values, scale);
    const order = ranked(values, own);
    // The sentence stays with the chosen target: words must not move under the pointer.
    if (pinned) {
      this.answer.replaceChildren(this.headline());
      this.facts.replaceChildren(...factLines(context));
    }
    this.inList.classList.toggle(
      "long",
      context.state.unit === "segments" ||
        Boolean(context.payload.image) ||
        Boolean(sources.text.segments?.some(([, , name]) => name !== undefined)),
    );
    this.fillLegend(scale);
    const label = targets.label(targetGroup);
    this.inName.replaceChildren("Sources of ", h("b", {}, short(label)));
    const itself = own >= 0 && values[own] ? [{ group: own, value: values[own]! }] : [];
    fill(this.inList, context, {
      order: order.slice(0, SHOWN),
      itself,
      scale,
      label: (g) => sources.placed(g),
      find: (g) => this.find(g),
    });
    const kept = Array.from(values).reduce((sum, v) => sum + Math.abs(v), 0);
    const more = order.slice(SHOWN).reduce((sum, each) => sum + Math.abs(each.value), 0);
    const parts = [];
    if (order.length > SHOWN) parts.push(`${order.length - SHOWN} more sources: ${percent(more)}`);
    if (!current.complete && kept < 0.9995)
      parts.push(`small shares that are not on this page: ${percent(1 - kept)}`);
    this.rest.textContent = parts.join(" · ");
    this.goesTo(label);
  }

  private shadeTargets(targetGroup: number, pinned: boolean): void {
    const { context, pointedSource } = this;
    const { current, targets, sources } = context;
    const values =
      pointedSource === null
        ? new Float64Array(targets.size)
        : current.outgoing(context.choice, targets, sources, pointedSource);
    const outlined = pointedSource === null ? targetGroup : -1;
    this.targetText.shadeBy(context, values, largest(values, -1), outlined, pinned);
  }

  private goesTo(label: string): void {
    const { context } = this;
    const { current, targets, targetGroup } = context;
    const shown = current.square && current.held.length > 1;
    this.outName.hidden = this.outList.hidden = !shown;
    if (!shown) return;
    const values = context.outgoing();
    this.outName.replaceChildren(h("b", {}, short(label)), " contributes to");
    const order = ranked(values, targetGroup).slice(0, SHOWN_OUT);
    this.outName.hidden = this.outList.hidden = order.length === 0;
    fill(this.outList, context, {
      order,
      itself: [],
      scale: largest(values, targetGroup),
      label: (g) => targets.label(g),
      find: (g) => this.find(g),
    });
  }

  private fillLegend(scale: number): void {
    const { palette, current, payload } = this.context;
    const thing = payload.image ? "patch" : current.sources.seconds ? "frame" : "word";
    const follow =
      thing === "word"
        ? "hover over a word to see its sources, click to keep them"
        : current.square
          ? `click a ${thing} to see its sources`
          : "hover for numbers";
    this.legend.replaceChildren(
      h("span", { class: "outlined" }, "target"),
      ...rampLegend(palette, scale, current.entry.signed),
      h("span", { class: "quiet" }, `share of the target · ${follow}`),
    );
  }

  /** The words or tokens that gave most, never whole segments of a text, and the share that the
   * target keeps of itself, if the measure has one. */
  private most(): { target: string; top: [string, number][]; own: number } {
    const { context } = this;
    const { current } = context;
    const { targets } = context;
    const sources = context.fine(current.sources);
    const group = targets.of[context.state.target]!;
    const values = current.incoming(context.choice, targets, group, sources);
    const own = current.square ? sources.of[context.state.target]! : -1;
    const top = ranked(values, own).slice(0, 3);
    return {
      target: targets.label(group),
      top: top.map((each) => [sources.placed(each.group), each.value]),
      own: own < 0 || !context.ownShare ? 0 : values[own]!,
    };
  }

  private headline(): HTMLElement {
    const { target, top, own } = this.most();
    const parts = top.map(([label, value]) => [h("b", {}, short(label)), ` ${percent(value)}`]);
    return h(
      "span",
      {},
      h("b", { class: "outlined" }, short(target)),
      top.length ? ` ${this.verb} ` : ` ${this.nothing}`,
      ...inARow(parts),
      own ? h("span", { class: "quiet" }, ` · ${percent(own)} from itself`) : null,
      ...this.remarks().map((remark) => h("span", { class: "quiet" }, ` · ${remark}`)),
    );
  }

  /** An output has no place among the tokens: it depends on them. */
  private get verb(): string {
    return this.context.current.entry.explains_output ? "depends most on" : "receives most from";
  }

  private get nothing(): string {
    return this.context.current.entry.explains_output
      ? "depends on no token"
      : "receives nothing from other tokens";
  }

  private sentence(): string {
    const { target, top } = this.most();
    const remarks = this.remarks();
    const end = remarks.length ? ` (${remarks.join(", ")})` : "";
    return `${isolated(target)} ${this.verb} ${listed(top)}${end}`;
  }

  /** The layers of which the answer speaks, if there are several, and what is left out. */
  private remarks(): string[] {
    const { context } = this;
    const found = context.current.depths.length > 1 ? [this.reading()] : [];
    const was = context.preview;
    context.preview = null;
    const hidden = context.hiddenShare;
    context.preview = was;
    if (hidden > 0) found.push(`${percent(hidden)} from hidden tokens`);
    return found;
  }

  private reading(): string {
    const { current, state } = this.context;
    const name = current.depthName(state.depth);
    const head = state.head === null ? "" : `, head ${state.head}`;
    return name[0]!.toLowerCase() + name.slice(1) + head;
  }

  paint(painter: Painter, context: Context, width: number): number {
    const { palette, own, current } = context;
    const values = context.incoming();
    const scale = largest(values, own);
    painter.text(0, 22, fitted(painter, this.sentence(), 17, width), {
      size: 17,
      fill: palette.ink,
      weight: 600,
    });
    let y = 40;
    if (!current.square)
      y +=
        this.targetText.paint(
          painter,
          context,
          0,
          y,
          width,
          new Float64Array(context.targets.size),
          1,
          context.targetGroup,
        ) + 12;
    if (context.payload.image)
      y += this.picture.paint(painter, context, 0, y, width, values, scale) + 12;
    for (const each of this.heats) y += each.paint(painter, 0, y, width) + 12;
    if (current.sources.seconds)
      y += this.strip.paint(painter, context, 0, y, width, values, scale) + 12;
    else if (!this.sourceText.isEmpty)
      y += this.sourceText.paint(painter, context, 0, y, width, values, scale, own) + 12;
    return y + this.layers.paint(painter, 0, y, width) + 8;
  }

  rows(context: Context): string[][] {
    const values = context.incoming();
    const label = context.targets.label(context.targetGroup);
    return [
      ["target", "source", "position", "share", "rank"],
      ...ranked(values, -1).map(({ group, value }, i) => [
        label,
        context.sources.label(group),
        String(context.sources.groups[group]!.start),
        value.toPrecision(4),
        String(i + 1),
      ]),
    ];
  }
}

interface List {
  order: Ranked[];
  itself: Ranked[];
  scale: number;
  label(group: number): string;
  find(group: number): void;
}

/** The rows of a ranked list: token, bar, share; at its end the target itself. */
function fill(table: HTMLTableElement, context: Context, list: List): void {
  const { order, itself, scale, label, find } = list;
  const row = (value: number, name: Node | string, own: boolean) =>
    h(
      "tr",
      { class: own ? "own" : null },
      h("th", { scope: "row", dir: "auto" }, name),
      h(
        "td",
        { class: "bars" },
        bar(context, value, scale, own ? context.palette.quiet : undefined),
      ),
      h("td", {}, percent(value)),
    );
  const [token, share] = ["token", "share"].map((name) => h("th", { scope: "col" }, name));
  const named = (group: number) =>
    h(
      "button",
      {
        type: "button",
        class: "source",
        title: `Find ${label(group)} in the text`,
        onclick: () => find(group),
      },
      label(group),
    );
  const rows = order.map((each) => row(each.value, named(each.group), false));
  rows.push(...itself.map((each) => row(each.value, "itself", true)));
  table.replaceChildren(
    h("colgroup", {}, h("col"), h("col"), h("col")),
    h("thead", { class: "unseen" }, h("tr", {}, token, h("td"), share)),
    h("tbody", {}, ...rows),
  );
}
