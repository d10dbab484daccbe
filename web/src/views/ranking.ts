// A ranking: the verdict, then a row for each measure and a column for each question.

import { css, shade, type Palette } from "../colour";
import { h } from "../dom";
import type { Cell, Ranking } from "../payload";

export function rankingView(ranking: Ranking, palette: Palette): HTMLElement {
  const questions = Object.entries(ranking.evaluations);
  const [first, ...more] = ranking.verdict.split("\n");
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "measure"),
    h("th", { scope: "col" }, "mean rank"),
    ...questions.map(([name, { direction }]) =>
      h(
        "th",
        { scope: "col" },
        name.replaceAll("_", " "),
        h("small", {}, direction === "neither" ? "" : `${direction} is better`),
      ),
    ),
  );
  const rows = ranking.measures.map(({ measure, mean_rank }) =>
    h(
      "tr",
      { class: measure === "random" ? "baseline" : null },
      h("th", { scope: "row" }, measure),
      h("td", {}, shown(mean_rank)),
      ...questions.map(([, { measures }]) =>
        cell(measures[measure], Object.values(measures), palette, measure === "random"),
      ),
    ),
  );
  return h(
    "div",
    { class: "ranking-view" },
    h("h1", { class: "answer" }, first ?? ""),
    ...more.map((line) => h("p", {}, line)),
    h(
      "p",
      { class: "quiet hint" },
      `Results over ${ranking.texts} texts. Each dot lies between the lowest and the highest value ` +
        "of its column; the line is the 95 % interval. Bold marks the best measure, grey italics " +
        "a measure that is not better than random scores.",
    ),
    h(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Ranked measures" },
      h("table", { class: "ranks" }, h("thead", {}, head), h("tbody", {}, ...rows)),
    ),
    h("h2", {}, "Evaluations"),
    h(
      "dl",
      {},
      ...questions.flatMap(([name, { summary }]) => [
        h("dt", {}, name.replaceAll("_", " ")),
        h("dd", {}, summary),
      ]),
    ),
  );
}

function shown(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toFixed(2).replace("-", "−");
}

function cell(
  given: Cell | undefined,
  column: Cell[],
  palette: Palette,
  baseline: boolean,
): HTMLElement {
  if (!given || given.value === null) return h("td", {}, "–");
  const ends = column
    .flatMap((each) => [each.low, each.high, each.value])
    .filter((v): v is number => v !== null);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const at = (value: number) => (high > low ? ((value - low) / (high - low)) * 100 : 50);
  const line = h("span", { class: "interval" });
  line.style.left = `${at(given.low ?? given.value)}%`;
  line.style.width = `${at(given.high ?? given.value) - at(given.low ?? given.value)}%`;
  const dot = h("span", { class: "dot" });
  dot.style.left = `${at(given.value)}%`;
  const grey = baseline || given.not_better_than_random;
  dot.style.backgroundColor = grey ? palette.quiet : css(shade(palette, 0.75));
  const kind = given.is_best ? "best" : given.not_better_than_random ? "luck" : null;
  const range = given.low === null ? "" : `${shown(given.low)} to ${shown(given.high)}`;
  return h(
    "td",
    { class: kind, title: range },
    shown(given.value),
    h("span", { class: "scale", "aria-hidden": "true" }, line, dot),
  );
}
