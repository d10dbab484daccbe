// A server or a kernel behind the page: its models and measures, and the jobs that it runs.

import type { Payload } from "./payload";

export interface ModelChoice {
  name: string;
  /** It needs a source and a target text. */
  pairs?: boolean;
  /** The measures that support it; if not known, all. */
  measures?: string[];
  /** The methods that explain its answers, the default first; none if it does not generate. */
  methods?: string[];
  chats?: boolean;
}

export interface Choices {
  models: ModelChoice[];
  measures: { name: string; summary?: string; per_head?: boolean }[];
  limits?: { tokens?: number; prompt_tokens?: number; new_tokens?: number };
}

export interface TextJob {
  model: string;
  text: string;
  target_text: string | null;
  measures: string[];
  heads: boolean;
}

export interface Turn {
  role: string;
  content: string;
}

export interface AnswerJob {
  model: string;
  messages: Turn[];
  documents: { name: string; text: string }[];
  answer: string | null;
  methods: string[];
  max_new_tokens: number;
}

export type Job = TextJob | AnswerJob;

export interface Live {
  choices(): Promise<Choices>;
  /** Resolves with a payload; `progress` is called with a part of one and words. */
  run(job: Job, progress: (part: number, words: string) => void): Promise<Payload>;
  cancel(): void;
}

/** What is asked, in elements, and the job that it makes. */
export interface Part {
  readonly element: HTMLElement;
  offer(choices: Choices, model: ModelChoice): void;
  job(model: string): Job;
}

const wait = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));

/** The API of `mixlens serve` (docs/viewer.md). */
export class Server implements Live {
  private job: string | null = null;

  constructor(private readonly api: string) {}

  private async ask<T>(path: string, options: RequestInit = {}): Promise<T> {
    const answer = await fetch(this.api + path, options);
    if (answer.status === 204) return undefined as T;
    const body = (await answer.json().catch(() => null)) as { detail?: unknown } | null;
    if (!answer.ok)
      throw new Error(
        typeof body?.detail === "string"
          ? body.detail
          : `The server replied with HTTP status ${answer.status}.`,
      );
    return body as T;
  }

  choices(): Promise<Choices> {
    return this.ask("");
  }

  async run(job: Job, progress: (part: number, words: string) => void): Promise<Payload> {
    const path = "messages" in job ? "/answers" : "/jobs";
    const { id } = await this.ask<{ id: string }>(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(job),
    });
    this.job = id;
    for (let pause = 80; ; pause = Math.min(1000, pause * 1.3)) {
      const now = await this.ask<{ state: string; progress: number; message: string }>(
        `/jobs/${id}`,
      );
      if (now.state === "done") break;
      if (now.state === "failed" || now.state === "cancelled")
        throw new Error(now.message || now.state);
      progress(now.progress, now.message || now.state);
      await wait(pause);
    }
    this.job = null;
    return this.ask(`/jobs/${id}/payload`);
  }

  cancel(): void {
    if (this.job) void this.ask(`/jobs/${this.job}`, { method: "DELETE" }).catch(() => undefined);
  }
}
