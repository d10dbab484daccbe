// The page: a bar of choices, the views behind tabs, a foot line that says what was measured.

import { DARK, LIGHT, PRINT } from "./colour";
import { Context, type View } from "./context";
import { h, percent, selectOf } from "./dom";
import { answerFoot, footLines } from "./foot";
import { Grouping, type Unit } from "./groups";
import { hideChoices, isSink } from "./hidden";
import type { Live } from "./live";
import { liveForm } from "./live_form";
import { joinedTo, ranked, readDepth, type Depth, type Measured } from "./measured";
import { saveMenu } from "./menu";
import { checked, type Payload } from "./payload";
import { fromFragment, toFragment, VIEWS, type Hidden, type State } from "./state";
import { AnswerView } from "./views/answer";
import { CompareView } from "./views/compare";
import { FlowView } from "./views/flow";
import { HeadsView } from "./views/heads";
import { MapView } from "./views/map";
import { rankingView } from "./views/ranking";
import { TextView } from "./views/text";

const NAMES = {
  answer: "Answer",
  text: "Text",
  map: "Map",
  heads: "Heads",
  flow: "Flow",
  compare: "Compare",
} as const;
const LONG = 1500; // words; a longer text opens in segments

export class App {
  private readonly bar = h("header", { class: "bar-top" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
  private readonly panel = h("div", { class: "panel", role: "tabpanel", tabindex: "-1" });
  private readonly notice = h("div", { class: "notice", role: "status" });
  private readonly foot = h("footer", {});
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
  private readonly said = h("div", { class: "unseen", "aria-live": "polite" });
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private views!: Record<string, View>;
  private context!: Context;
  private first!: State;
  private frame = 0;
  private printing = false;

  constructor(
    private readonly root: HTMLElement,
    payload: Payload,
    live: Live | null,
    private readonly linked: boolean,
  ) {
    root.classList.add("mixlens");
    const form = live && liveForm(live, payload, (found) => this.show(found));
    root.replaceChildren(
      ...(form ? [form] : []),
      this.bar,
      this.tabs,
      this.notice,
      this.panel,
      this.foot,
      this.tip,
      this.said,
    );
    this.dark.addEventListener("change", () => this.update());
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    new ResizeObserver(() => this.soon()).observe(root);
    if (linked)
      window.addEventListener("hashchange", () => {
        if (!this.shown.length) return;
        if (location.hash.slice(1) === toFragment(this.context.state, this.first)) return;
        this.context.state = this.sound(fromFragment(location.hash, this.first));
        this.update();
      });
    this.show(payload, true);
  }

  show(payload: Payload, opening = false): void {
    checked(payload);
    this.views = {
      answer: new AnswerView(),
      text: new TextView(),
      map: new MapView(),
      heads: new HeadsView(),
      flow: new FlowView(),
      compare: new CompareView(),
    };
    const theme = this.context?.state.theme ?? "auto";
    this.context = new Context(payload, {} as State, {
      set: (change) => this.set(change),
      point: (position) => this.point(position),
      tip: (event, lines) => this.tipAt(event, lines),
      announce: (text) => {
        this.said.textContent = text;
      },
    });
    const shown = this.shown;
    this.tabs.replaceChildren();
    this.tabs.hidden = shown.length < 2;
    this.notice.hidden = !payload.maps.length;
    this.first = shown.length ? this.firstState(payload, theme) : ({ theme } as State);
    if (!shown.length) this.context.state = this.first;
    else
      this.context.state =
        opening && this.linked
          ? this.sound(fromFragment(location.hash, this.first))
          : { ...this.first };
    this.update();
  }

  /** The views of which this payload has the numbers. */
  private get shown(): State["view"][] {
    const { payload, measured } = this.context;
    const has: Record<State["view"], () => boolean> = {
      answer: () => Boolean(payload.answer),
      text: () => measured.length > 0,
      map: () => measured.some((each) => each.held.length > 1),
      heads: () => measured.some((each) => each.heads > 0),
      flow: () => measured.some((each) => each.canFlow),
      compare: () =>
        measured.some((a, i) =>
          measured.some((b, j) => i < j && a.targets === b.targets && a.sources === b.sources),
        ),
    };
    return VIEWS.filter((view) => has[view]());
  }

  /** A ranking, or an empty page that waits for a text. */
  private withoutMaps(): void {
    const { payload, palette } = this.context;
    this.bar.replaceChildren(h("p", { class: "title" }, payload.title));
    this.foot.replaceChildren(h("p", {}, `mixlens ${payload.mixlens}`));
    this.panel.replaceChildren(
      payload.ranking
        ? rankingView(payload.ranking, palette)
        : h("p", { class: "quiet" }, "Type a text above and press Measure."),
    );
  }

  private firstState(payload: Payload, theme: State["theme"]): State {
    const { measured } = this.context;
    const ofAnswer = { method: 0, part: "", follow: "words" } as const;
    if (!measured.length) return { view: "answer", ...ofAnswer, theme } as State;
    const map = Math.max(
      0,
      payload.maps.findIndex((entry) => entry.measure === "value_zeroing"),
    );
    const text = measured[map]!.sources;
    const words = (text.words ?? text.labels).length;
    const hasWords = text.words ?? measured[map]!.targets.words;
    const unit: Unit = text.segments && words > LONG ? "segments" : hasWords ? "words" : "tokens";
    const wanted = payload.start?.target ?? measured[map]!.held[0] ?? 0;
    const view = this.shown.find((each) => each === payload.start?.view) ?? "text";
    return {
      view,
      map,
      other: null,
      target: wanted,
      depth: measured[map]!.defaultDepth,
      rows: "each",
      head: null,
      unit,
      threshold: 0.02,
      open: unit === "segments" ? this.strongest(measured[map]!, wanted) : [],
      node: null,
      hide: "none",
      ...ofAnswer,
      theme,
    };
  }

  /** The segments that give most to a target: they are open at first. */
  private strongest(measured: Measured, target: number): number[] {
    const segments = new Grouping(measured.sources, "segments");
    const targets = new Grouping(measured.targets, "tokens");
    const choice = { depth: measured.defaultDepth, head: null };
    const values = measured.incoming(choice, targets, target, segments);
    return ranked(values, -1)
      .slice(0, 2)
      .map((each) => each.group);
  }

  /** A state that these maps can show: what they do not have is as at first. */
  private sound(state: State): State {
    const found = { ...state };
    const { measured, answer } = this.context;
    if (!this.shown.includes(found.view)) found.view = this.first.view;
    if (answer) {
      if (!answer.about.methods[found.method]) found.method = 0;
      if (!answer.isPart(found.part)) found.part = "";
    }
    if (!measured.length) return found;
    if (!measured[found.map]) found.map = this.first.map;
    const current = measured[found.map]!;
    if (!current.depths.includes(found.depth)) found.depth = current.defaultDepth;
    if (
      found.head !== null &&
      (typeof found.depth !== "number" || !(found.head >= 0 && found.head < current.heads))
    )
      found.head = null;
    if (!current.holds(found.target))
      found.target = current.holds(this.first.target)
        ? this.first.target
        : current.held[current.held.length - 1]!;
    if (found.unit === "segments" && !current.sources.segments)
      found.unit = current.sources.words ? "words" : "tokens";
    if (found.unit === "words" && !current.sources.words && !current.targets.words)
      found.unit = "tokens";
    if (found.other !== null && !measured[found.other]) found.other = null;
    return found;
  }

  private set(change: Partial<State>): void {
    const { context } = this;
    context.preview = null;
    context.state = this.sound({ ...context.state, ...change });
    if (this.linked) {
      const fragment = toFragment(context.state, this.first);
      history.replaceState(
        null,
        "",
        `${location.pathname}${location.search}${fragment ? `#${fragment}` : ""}`,
      );
    }
    this.update();
    this.tipAt(null, []);
  }

  private point(position: number | null): void {
    if (this.context.preview === position) return;
    this.context.preview = position;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.view.pointed?.(this.context));
  }

  private get view(): View {
    return this.views[this.context.state.view]!;
  }

  private soon(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.update());
  }

  private print(printing: boolean): void {
    this.printing = printing;
    this.update();
  }

  private paint(): void {
    const { theme } = this.context.state;
    const dark = !this.printing && (theme === "dark" || (theme === "auto" && this.dark.matches));
    this.context.palette = this.printing ? PRINT : dark ? DARK : LIGHT;
    this.root.dataset.theme = dark ? "dark" : "light";
    if (this.linked) document.documentElement.dataset.theme = dark ? "dark" : "light";
  }

  private update(): void {
    this.paint();
    if (!this.shown.length) return this.withoutMaps();
    this.context.leaveOut();
    this.choices();
    this.tabBar();
    this.fillNotice();
    const { element } = this.view;
    if (this.panel.firstChild !== element) this.panel.replaceChildren(element);
    this.view.update(this.context);
    const foot = this.context.state.view === "answer" ? answerFoot : footLines;
    this.foot.replaceChildren(...foot(this.context));
  }

  private choices(): void {
    const fields = this.context.state.view === "answer" ? this.answerFields() : this.mapFields();
    const now = (this.root.getRootNode() as Document).activeElement;
    const focused =
      now && this.bar.contains(now)
        ? [...this.bar.querySelectorAll("select, button, summary")].indexOf(now as HTMLElement)
        : -1;
    this.bar.replaceChildren(
      ...fields,
      h("span", { class: "push" }),
      this.themeButton(),
      saveMenu(() => this.view, this.context, this.linked),
    );
    if (focused >= 0)
      (
        this.bar.querySelectorAll("select, button, summary")[focused] as HTMLElement | undefined
      )?.focus();
  }

  private answerFields(): HTMLElement[] {
    const { state, answer } = this.context;
    return [
      selectOf(
        "Method",
        answer!.about.methods.map(({ name }, i) => [String(i), name]),
        String(state.method),
        (v) => this.set({ method: Number(v) }),
      ),
      selectOf(
        "Select",
        [
          ["words", "Words"],
          ["sentences", "Sentences"],
        ],
        state.follow,
        (v) => this.set({ follow: v as State["follow"] }),
      ),
    ];
  }

  private mapFields(): HTMLElement[] {
    const { context } = this;
    const { state, measured, current } = context;
    const fields = [
      selectOf(
        "Measure",
        measured.map((each, i) => [String(i), context.name(each)]),
        String(state.map),
        (v) => this.set({ map: Number(v), head: null }),
      ),
    ];
    if (current.depths.length > 1)
      fields.push(
        selectOf(
          "Layer",
          current.depths.map((depth) => [
            String(depth),
            current.depthName(depth),
            current.upTo.length ? kindOf(depth) : undefined,
          ]),
          String(state.depth),
          (v) => this.set({ depth: readDepth(v) }),
        ),
      );
    if (current.heads && typeof state.depth === "number")
      fields.push(
        selectOf(
          "Head",
          [
            ["", "whole layer"],
            ...Array.from({ length: current.heads }, (_, i): [string, string] => [
              String(i),
              String(i),
            ]),
          ],
          state.head === null ? "" : String(state.head),
          (v) => this.set({ head: v === "" ? null : Number(v) }),
        ),
      );
    const { words, segments } = current.sources;
    const units: [string, string][] = [["tokens", "Tokens"]];
    if (words || current.targets.words) units.unshift(["words", "Words"]);
    if (segments) units.push(["segments", "Segments"]);
    if (units.length > 1)
      fields.push(
        selectOf("By", units, state.unit, (v) => this.set({ unit: v as Unit, node: null })),
      );
    const hide = hideChoices(current, this.context.documents);
    if (hide.length > 1 && state.view !== "flow")
      fields.push(selectOf("Hide", hide, state.hide, (v) => this.set({ hide: v as Hidden })));
    return fields;
  }

  /** What must be known before the numbers are read, and the way to those that can be. */
  private fillNotice(): void {
    const { context } = this;
    const { current, state } = context;
    this.notice.hidden = true;
    if (state.view === "answer") return;
    const warning = current.warningAt(state.depth);
    const found = context.alike();
    if (warning === null && !found) return;
    this.notice.hidden = false;
    const words =
      warning ??
      `All targets have nearly the same sources here. They differ by ${percent(found!.distance)} ` +
        "from their mean, so these numbers say little about a single target.";
    const links: HTMLElement[] = [];
    const link = (label: string, change: Partial<State>) =>
      links.push(
        h("button", { type: "button", class: "link", onclick: () => this.set(change) }, label),
      );
    if (state.depth !== "mean" && current.depths.includes("mean"))
      link("Show the mean of layers", { depth: "mean" });
    if (
      found &&
      isSink(found) &&
      hideChoices(current, this.context.documents).some(([hide]) => hide === "first")
    )
      link("Hide the first token", { hide: "first" });
    this.notice.replaceChildren(
      h("span", {}, `${words} `),
      ...links.flatMap((each) => [each, " "]),
    );
  }

  private themeButton(): HTMLElement {
    const dark = this.context.palette.dark;
    return h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-label": dark ? "Light colours" : "Dark colours",
        onclick: () => this.set({ theme: dark ? "light" : "dark" }),
      },
      dark ? "☀" : "☾",
    );
  }

  private tabBar(): void {
    const { state } = this.context;
    if (!this.tabs.children.length)
      for (const view of this.shown)
        this.tabs.append(
          h(
            "button",
            {
              type: "button",
              role: "tab",
              "data-view": view,
              onclick: () => this.set({ view }),
              onkeydown: (event: KeyboardEvent) => this.tabKey(event),
            },
            NAMES[view],
          ),
        );
    for (const tab of this.tabs.children as unknown as HTMLElement[]) {
      const chosen = tab.dataset.view === state.view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-label", NAMES[state.view]);
  }

  private tabKey(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const { shown } = this;
    const next = (shown.indexOf(this.context.state.view) + step + shown.length) % shown.length;
    this.set({ view: shown[next]! });
    (this.tabs.children[next] as HTMLElement).focus();
  }

  private tipAt(event: MouseEvent | null, lines: string[]): void {
    const { tip } = this;
    tip.classList.toggle("on", Boolean(event && lines.length));
    if (!event || !lines.length) return;
    tip.replaceChildren(...lines.map((line, i) => h(i ? "div" : "b", { dir: "auto" }, line)));
    const { clientX, clientY } = event;
    const wide = tip.offsetWidth;
    const high = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(clientX + 14, window.innerWidth - wide - 8))}px`;
    const below = clientY + 18 + high <= window.innerHeight;
    tip.style.top = `${below ? clientY + 18 : clientY - high - 12}px`;
  }
}

function kindOf(depth: Depth): string {
  if (typeof depth === "number") return "One layer";
  return joinedTo(depth) === null ? "All layers" : "Layers up to a layer";
}
