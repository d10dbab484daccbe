// An answer, read: its parts, the documents, and scores of documents, sentences and words.

import { numbers, unpacked, type Shares } from "./packed";
import type { Answered, Method, WrittenTable } from "./payload";

/** Runs of characters that are not blank: answer_block.py has the same rule. */
export const WORD = /[^ \t\n\r]+/g;

const KEPT = 60; // parts whose scores are kept

/** The whole answer, or a sentence or a word of it by its number: "", "s0", "w3". */
export type Part = "" | `s${number}` | `w${number}`;

class Table {
  private readonly shares: Shares;
  private readonly totals: Float32Array;

  constructor(written: WrittenTable) {
    this.shares = unpacked(written.shares);
    this.totals = numbers(written.totals) as Float32Array;
  }

  get columns(): number {
    return this.shares.sources;
  }

  get lines(): number {
    return this.totals.length;
  }

  /** The scores of some lines: their mean, or their sum. */
  of(first: number, stop: number, summed: boolean): Float64Array {
    const found = new Float64Array(this.columns);
    const scale = summed ? 1 : 1 / Math.max(1, stop - first);
    for (let row = first; row < stop; row++) {
      const total = this.totals[row]! * scale;
      this.shares.eachOfRow(0, row, (column, value) => {
        found[column]! += value * total;
      });
    }
    return found;
  }
}

type Name = "documents" | "passages" | "words" | "kinds" | "patches";

/** The scores of a part of the answer. Each kind is computed when it is first asked for: the list of
 * methods needs those of documents alone. */
export class Scored {
  private readonly known = new Map<Name, Float64Array | null>();

  constructor(private readonly read: (name: Name) => Float64Array | null) {}

  private of(name: Name): Float64Array | null {
    if (!this.known.has(name)) this.known.set(name, this.read(name));
    return this.known.get(name)!;
  }

  get documents(): Float64Array {
    return this.of("documents")!;
  }

  /** Null if whole documents were removed. */
  get passages(): Float64Array | null {
    return this.of("passages");
  }

  get words(): Float64Array | null {
    return this.of("words");
  }

  get kinds(): Float64Array | null {
    return this.of("kinds");
  }

  get patches(): Float64Array | null {
    return this.of("patches");
  }
}

class MethodTables {
  private readonly tables: Record<Name, Table | null>;

  constructor(
    readonly about: Method,
    private readonly sentences: number,
  ) {
    const read = (written: WrittenTable | null) => (written ? new Table(written) : null);
    this.tables = {
      documents: read(about.documents),
      passages: read(about.passages),
      words: read(about.words),
      kinds: read(about.kinds),
      patches: read(about.patches ?? null),
    };
  }

  /** The lines of a table are tokens of the answer, then its sentences, then the whole answer. */
  get tokens(): number {
    return this.tables.documents!.lines - this.sentences - 1;
  }

  of(first: number, stop: number): Scored {
    return new Scored((name) => this.tables[name]?.of(first, stop, this.about.removes) ?? null);
  }
}

export class AnswerScores {
  readonly documents: string[];
  /** The text of each passage, and the document that it is in. */
  readonly passages: { text: string; document: number }[] = [];
  /** The number of the first word of each passage. */
  readonly firstWord: number[] = [];
  private readonly methods: (MethodTables | null)[];
  private readonly known = new Map<string, Scored>();

  constructor(readonly about: Answered) {
    this.documents = about.blocks.filter((block) => block.document >= 0).map((block) => block.name);
    this.methods = about.methods.map(() => null);
    for (const { document, pieces } of about.blocks)
      for (const [text, passage] of pieces)
        if (passage >= 0) this.passages[passage] = { text, document };
    let count = 0;
    for (const { text } of this.passages) {
      this.firstWord.push(count);
      count += text.match(WORD)?.length ?? 0;
    }
  }

  /** The lines of a part of the answer. */
  private lines(part: Part, tokens: number): [number, number] {
    const { words, sentences } = this.about;
    const number = Number(part.slice(1));
    if (part[0] === "w") return [words[number]!.first, words[number]!.stop];
    const line = tokens + (part ? number : sentences.length);
    return [line, line + 1];
  }

  text(part: Part): string {
    const { words, sentences } = this.about;
    if (!part) return "This answer";
    return (part[0] === "w" ? words : sentences)[Number(part.slice(1))]!.text;
  }

  isPart(part: string): part is Part {
    const number = Number(part.slice(1));
    const { words, sentences } = this.about;
    if (part === "") return true;
    return part[0] === "w" ? number in words : part[0] === "s" && number in sentences;
  }

  of(method: number, part: Part): Scored {
    const key = `${method} ${part}`;
    let found = this.known.get(key);
    if (!found) {
      const tables = (this.methods[method] ??= new MethodTables(
        this.about.methods[method]!,
        this.about.sentences.length,
      ));
      found = tables.of(...this.lines(part, tables.tokens));
      if (this.known.size > KEPT) this.known.clear();
      this.known.set(key, found);
    }
    return found;
  }

  /** The passage that a word of the documents is in. */
  passageOf(word: number): number {
    let low = 0;
    let high = this.firstWord.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.firstWord[middle]! <= word) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Values divided by the sum of the positive ones, which are all that is cited. */
export function sharesOf(values: Float64Array): Float64Array {
  let sum = 0;
  for (const value of values) sum += Math.max(0, value);
  return values.map((value) => (sum > 0 ? Math.max(0, value) / sum : 0));
}

/** Places from the largest value to the smallest positive one. */
export function order(values: ArrayLike<number>, count: number): number[] {
  const found: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i]! > 0) found.push(i);
  return found.sort((a, b) => values[b]! - values[a]! || a - b).slice(0, count);
}
