import { describe, expect, it } from "vitest";
import { DARK, inkOn, LIGHT, PRINT, shade } from "../src/colour";
import { percent } from "../src/dom";
import { Grouping } from "../src/groups";
import { fromFragment, toFragment, type State } from "../src/state";
import { visible } from "../src/visible";
import { textOf } from "./made";

describe("what cannot be seen", () => {
  it("has a name", () => {
    expect(visible("a\u202eb\u200b")).toBe("a⟨RLO⟩b⟨ZWSP⟩");
    expect(visible("\u0000\u0085")).toBe("⟨NUL⟩⟨U+0085⟩");
    expect(visible("\n")).toBe("↵");
  });

  it("stays where it joins letters or emoji", () => {
    expect(visible("👩‍👧")).toBe("👩‍👧");
    expect(visible("می‌خواهم")).toBe("می‌خواهم");
    expect(visible("a\u200c")).toBe("a⟨ZWNJ⟩");
  });
});

describe("groups", () => {
  const text = {
    ...textOf(..."abcdefgh"),
    words: [
      [0, 2],
      [2, 3],
      [3, 4],
      [4, 6],
      [6, 8],
    ] as [number, number][],
    segments: [
      [0, 4],
      [4, 8],
    ] as [number, number][],
  };

  it("are words, and segments that open into words", () => {
    expect(new Grouping(text, "words").size).toBe(5);
    const half = new Grouping(text, "segments", new Set([1]));
    expect(half.groups.map(({ start, stop }) => [start, stop])).toEqual([
      [0, 4],
      [4, 6],
      [6, 8],
    ]);
    expect([...half.of]).toEqual([0, 0, 0, 0, 1, 1, 2, 2]);
    expect(half.label(1)).toBe("e f");
  });

  it("of closed segments go by their names", () => {
    const text = {
      ...textOf("a", "b", "c"),
      segments: [
        [0, 2, "user"],
        [2, 3],
      ],
    };
    const grouping = new Grouping(text as ReturnType<typeof textOf>, "segments");
    expect([grouping.label(0), grouping.label(1)]).toEqual(["user", "c"]);
  });
});

describe("a link", () => {
  const first: State = {
    view: "text",
    map: 0,
    other: null,
    target: 3,
    depth: "all",
    rows: "each",
    head: null,
    unit: "words",
    threshold: 0.02,
    open: [],
    node: null,
    hide: "none" as const,
    method: 0,
    part: "",
    follow: "words",
    theme: "auto",
  };

  it("says only what differs, and brings it back", () => {
    expect(toFragment(first, first)).toBe("");
    const state: State = { ...first, view: "flow", depth: 2, head: 1, open: [4, 7], node: [1, 5] };
    expect(fromFragment(`#${toFragment(state, first)}`, first)).toEqual(state);
    const closed = { ...first, open: [] };
    expect(
      fromFragment(toFragment(closed, { ...first, open: [1] }), { ...first, open: [1] }),
    ).toEqual(closed);
  });

  it("that is wrong opens the first state", () => {
    expect(fromFragment("#view=no&target=x&unit=&theme=pink", first)).toEqual(first);
  });
});

describe("colours", () => {
  const channel = (c: number) =>
    c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]: readonly number[]) =>
    0.2126 * channel(r!) + 0.7152 * channel(g!) + 0.0722 * channel(b!);

  it("carry readable text at every shade", () => {
    for (const palette of [LIGHT, DARK])
      for (let t = -1; t <= 1; t += 0.02) {
        const paper = luminance(shade(palette, t));
        const hex = inkOn(shade(palette, t)).slice(1);
        const ink = luminance([0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)));
        const contrast = (Math.max(paper, ink) + 0.05) / (Math.min(paper, ink) + 0.05);
        expect(contrast).toBeGreaterThan(4.5);
      }
  });

  it("grow darker on light paper and brighter on dark paper, on both sides of zero", () => {
    for (const sign of [1, -1])
      for (let t = 0; t < 1; t += 0.05) {
        expect(luminance(shade(LIGHT, sign * (t + 0.05)))).toBeLessThan(
          luminance(shade(LIGHT, sign * t)),
        );
        expect(luminance(shade(DARK, sign * (t + 0.05)))).toBeGreaterThan(
          luminance(shade(DARK, sign * t)),
        );
      }
  });
});

it("writes percentages with the digits that matter, on one line", () => {
  const shown = [0.271, 0.0936, 0.0004, 0.00001, -0.5, 0].map((v) => percent(v));
  expect(shown.map((text) => text.replace("\u00a0%", ""))).toEqual([
    "27",
    "9.4",
    "0.04",
    "under 0.01",
    "−50",
    "0.00",
  ]);
  expect(shown.join("")).not.toContain(" %");
});

it("prints black text at every shade", () => {
  for (let t = -1; t <= 1; t += 1 / 64) expect(inkOn(shade(PRINT, t))).toBe("#000000");
});
