// What every view is given: the payload read, the state, and the ways to change it.

import { AnswerScores } from "./answered";
import type { Palette } from "./colour";
import { Grouping, segmentOf } from "./groups";
import { alike, hiddenSources, type Alike } from "./hidden";
import { Measured, type Choice, type Depth } from "./measured";
import type { Painter } from "./painter";
import type { Payload, Text, TiledPicture } from "./payload";
import type { Hidden, State } from "./state";

const NONE: ReadonlySet<number> = new Set();

export interface View {
  readonly element: HTMLElement;
  update(context: Context): void;
  /** A token is pointed at, or none: only what follows the pointer changes. */
  pointed?(context: Context): void;
  /** Draws the view for a file and returns its height. */
  paint(painter: Painter, context: Context, width: number): number;
  /** The numbers that it shows. */
  rows(context: Context): string[][];
}

export interface Actions {
  set(change: Partial<State>): void;
  /** Shows a token as if it were the target, until null. */
  point(position: number | null): void;
  tip(event: MouseEvent | null, lines: string[]): void;
  announce(text: string): void;
}

export class Context {
  readonly measured: Measured[];
  readonly answer: AnswerScores | null;
  /** The names of the documents of an answer. */
  readonly documents: ReadonlySet<string>;
  palette!: Palette;
  preview: number | null = null;
  private groupings = new Map<string, Grouping>();
  private patches = new Map<Text, ReadonlySet<number>>();
  private hidden: Hidden = "none";
  private readonly gone = new Map<Text, ReadonlySet<number>>();
  private likeness = new Map<string, Alike | null>();

  constructor(
    readonly payload: Payload,
    public state: State,
    readonly actions: Actions,
  ) {
    this.measured = payload.maps.map((entry) => new Measured(payload, entry));
    this.answer = payload.answer ? new AnswerScores(payload.answer) : null;
    this.documents = new Set(this.answer?.documents);
  }

  /** Leaves out the sources that the state names, in all maps. */
  leaveOut(): void {
    if (this.state.hide === this.hidden) return;
    this.hidden = this.state.hide;
    this.gone.clear();
    for (const each of this.measured) {
      const gone =
        this.gone.get(each.sources) ?? hiddenSources(each.sources, this.hidden, this.documents);
      this.gone.set(each.sources, gone);
      each.leaveOut(gone);
    }
  }

  /** The sources of a text that are left out. */
  goneFrom(text: Text): ReadonlySet<number> {
    return this.gone.get(text) ?? NONE;
  }

  /** The part of the shown target's score that is left out. */
  get hiddenShare(): number {
    const gone = this.goneFrom(this.current.sources);
    return gone.size ? this.current.shareOf(this.choice, this.targets, this.targetGroup, gone) : 0;
  }

  /** The distance between targets at what is shown, if all are nearly alike. */
  alike(depth = this.state.depth): Alike | null {
    const { map, head, hide } = this.state;
    const key = [map, depth, head, hide].join(" ");
    if (!this.likeness.has(key)) this.likeness.set(key, alike(this.current, { depth, head }));
    return this.likeness.get(key)!;
  }

  get current(): Measured {
    return this.measured[this.state.map]!;
  }

  get choice(): Choice {
    return { depth: this.state.depth, head: this.state.head };
  }

  /** The target that is shown: the one pointed at, else the chosen one. */
  get target(): number {
    return this.preview ?? this.state.target;
  }

  /** Is this token of a text a patch of the picture, which is seen there? */
  isPatch(text: Text, token: number): boolean {
    const { image } = this.payload;
    if (!image) return this.patchesOf(text).has(token);
    if (text !== this.payload.texts[image.text ?? this.payload.maps[0]!.sources]) return false;
    return token >= image.first && token < image.first + image.rows * image.columns;
  }

  /** The tokens of a text that are patches of its pictures. */
  private patchesOf(text: Text): ReadonlySet<number> {
    let found = this.patches.get(text);
    if (!found) {
      const tokens = this.picturesOf(text).flatMap(({ grids }) =>
        grids.flatMap(({ first, rows, columns, stride }) =>
          Array.from(
            { length: rows * columns },
            (_, i) => first + Math.floor(i / columns) * stride + (i % columns),
          ),
        ),
      );
      found = new Set(tokens);
      this.patches.set(text, found);
    }
    return found;
  }

  /** The pictures of a text, if it has several or tiles; one alone is `payload.image`. */
  picturesOf(text: Text): TiledPicture[] {
    const { image, images, texts } = this.payload;
    return image ? [] : (images ?? []).filter((each) => texts[each.text] === text);
  }

  grouping(text: Text): Grouping {
    const open = this.state.unit === "segments" ? this.openSegments(text) : [];
    const key = `${this.payload.texts.indexOf(text)} ${this.state.unit} ${open.join(",")}`;
    let found = this.groupings.get(key);
    if (!found) {
      if (this.groupings.size > 12) this.groupings.clear();
      found = new Grouping(text, this.state.unit, new Set(open));
      this.groupings.set(key, found);
    }
    return found;
  }

  /** The sources that sentences speak of: the tokens or words that are chosen, and words (tokens, if
   * words are not known) of segments. */
  fine(text: Text): Grouping {
    if (this.state.unit !== "segments") return this.grouping(text);
    const key = `${this.payload.texts.indexOf(text)} fine`;
    const found = this.groupings.get(key) ?? new Grouping(text, "words");
    this.groupings.set(key, found);
    return found;
  }

  /** Is the diagonal of what is shown the share that a token keeps of itself? */
  get ownShare(): boolean {
    return this.current.hasOwnShare(this.state.depth);
  }

  /** Those opened by hand, and the one in which the target lies. */
  private openSegments(text: Text): number[] {
    const own = text === this.current.targets ? segmentOf(text, this.state.target) : -1;
    const found = new Set(this.state.open);
    if (own >= 0) found.add(own);
    return [...found].sort((a, b) => a - b);
  }

  get targets(): Grouping {
    return this.grouping(this.current.targets);
  }

  get sources(): Grouping {
    return this.grouping(this.current.sources);
  }

  get targetGroup(): number {
    return this.targets.of[this.target] ?? 0;
  }

  /** The group of the word that should decide, if the page has one. */
  get cueGroup(): number | null {
    const cue = this.payload.start?.cue;
    return cue === undefined || cue === null ? null : (this.sources.of[cue] ?? null);
  }

  /** The group that is the target itself among the sources, or -1. */
  get own(): number {
    return this.current.square ? this.targetGroup : -1;
  }

  incoming(measured = this.current, choice: Choice = this.choice): Float64Array {
    return measured.incoming(choice, this.targets, this.targetGroup, this.sources);
  }

  outgoing(): Float64Array {
    const { current } = this;
    return current.outgoing(this.choice, this.targets, this.sources, this.targetGroup);
  }

  /** The same depth for a measure that may not have it. */
  depthFor(measured: Measured): Depth {
    return measured.depths.includes(this.state.depth) ? this.state.depth : measured.defaultDepth;
  }

  name(measured: Measured): string {
    const { measure, provenance } = measured.entry;
    const site = provenance.site as string | undefined;
    const sites = new Set(this.payload.maps.map((entry) => entry.provenance.site));
    return sites.size > 1 && site ? `${measure} · ${site}` : measure;
  }
}
