// The payload: what Python wrote (docs/viewer.md), as types.

import type { AnswerJob } from "./live";

export interface WrittenArray {
  dtype: string;
  shape: number[];
  data: string;
}

export type WrittenShares =
  | { kind: "dense"; shares: WrittenArray }
  | {
      kind: "largest";
      kept: number;
      shape: [number, number, number];
      starts: WrittenArray;
      indices: WrittenArray;
      values: WrittenArray;
    };

export interface Text {
  labels: string[];
  shown: string[];
  gaps: string[];
  special: number[];
  words: [number, number][] | null;
  /** First token, after the last, and a name if it has one. */
  segments: [number, number, string?][] | null;
  seconds?: number | null;
}

export interface Entry {
  measure: string;
  summary: string;
  citation: string;
  provenance: Record<string, unknown>;
  targets: number;
  sources: number;
  target_positions: number[] | null;
  layers: number[];
  signed: boolean;
  reaches_input: boolean;
  explains_output?: boolean;
  /** Is the diagonal the share that a token keeps of itself? */
  own_share?: boolean;
  /** The depth that is shown first. */
  reading?: "mean" | "all" | number;
  /** Why the scores of a layer must not be read as an answer. */
  warnings?: (string | null)[];
  scores: WrittenShares | null;
  totals?: WrittenArray;
  heads?: WrittenShares | null;
  joined: {
    how: string;
    residual?: number;
    normalise?: boolean;
    own_share?: boolean;
    warnings?: (string | null)[];
    scores: WrittenShares;
    totals?: WrittenArray;
  } | null;
  notes?: string[];
}

export interface Picture {
  /** The text whose tokens are its patches; else the sources of the first maps. */
  text?: number;
  src: string;
  rows: number;
  columns: number;
  first: number;
}

/** Patches that are tokens: row by row, from the token `first` on. */
export interface Grid {
  first: number;
  rows: number;
  columns: number;
  /** Tokens from one row to the next. */
  stride: number;
  /** Left, top, right and bottom in the picture, as parts of its sides; beyond 1 is padding. */
  box: [number, number, number, number];
}

/** A picture of a text, with one grid of patches, or several if the model reads tiles. */
export interface TiledPicture {
  text: number;
  name: string;
  src: string;
  grids: Grid[];
}

export interface Cell {
  value: number | null;
  low: number | null;
  high: number | null;
  rank: number | null;
  is_best: boolean;
  not_better_than_random: boolean;
}

export interface Ranking {
  verdict: string;
  texts: number;
  measures: { measure: string; mean_rank: number | null; low?: number; high?: number }[];
  evaluations: Record<
    string,
    { summary: string; direction: string; measures: Record<string, Cell> }
  >;
}

export interface WrittenTable {
  shares: WrittenShares;
  totals: WrittenArray;
}

export interface AnswerPart {
  text: string;
  /** The first token of the answer that is in it, and the one after the last. */
  first: number;
  stop: number;
}

/** A part of the prompt; the pieces of a document are its passages and what is between them. */
export interface Block {
  name: string;
  kind: string;
  document: number;
  pieces: [string, number][];
}

export interface Method {
  name: string;
  reading: string;
  removes: boolean;
  citation: string;
  documents: WrittenTable;
  passages: WrittenTable | null;
  words: WrittenTable | null;
  kinds: WrittenTable | null;
  /** Of the tokens that are patches of pictures. */
  patches?: WrittenTable | null;
}

export interface Answered {
  words: AnswerPart[];
  sentences: AnswerPart[];
  /** The text in order, with the number of the word and of its sentence, or -1. */
  pieces: [string, number, number][];
  blocks: Block[];
  kinds: string[];
  uses_template: boolean;
  /** By method: the passages that each sentence cites. */
  citations: Record<string, number[][]>;
  methods: Method[];
  provenance: Record<string, unknown>;
  /** The tokens that are patches of pictures. */
  patches?: number[];
}

export interface Payload {
  format: string;
  version: number;
  mixlens: string;
  title: string;
  texts: Text[];
  maps: Entry[];
  image?: Picture | null;
  images?: TiledPicture[];
  /** `cue` is the source that should decide, by which measures are sorted. */
  start?: { target?: number; view?: string; cue?: number | null };
  left_out?: Record<string, string>;
  ranking?: Ranking;
  answer?: Answered;
  live?: { api: string } | null;
  /** Of a live page: the prompt that was answered. */
  request?: AnswerJob;
}

/** Refuses, in words, what this viewer cannot show. */
export function checked(payload: Payload): Payload {
  if (payload?.format !== "mixlens") throw new Error("This is not a mixlens payload.");
  if (payload.version !== 1)
    throw new Error(
      `This viewer reads payloads of version 1, not ${payload.version}. Save the page again.`,
    );
  return payload;
}
