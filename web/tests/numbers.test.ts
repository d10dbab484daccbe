import { describe, expect, it } from "vitest";
import { disputes, ranks, spearman } from "../src/agreement";
import { csv } from "../src/export";
import { through, traced } from "../src/flow";
import { Grouping } from "../src/groups";
import { alike, hiddenSources, hideChoices, isSink } from "../src/hidden";
import { Measured, largest, ranked } from "../src/measured";
import { numbers, unpacked } from "../src/packed";
import type { Entry, Text } from "../src/payload";
import { dense, payloadOf, product, textOf, written } from "./made";

const MAPS = [
  [
    [0.5, 0.25, 0.25],
    [0.125, 0.625, 0.25],
    [0.5, 0, 0.5],
  ],
  [
    [0.25, 0.5, 0.25],
    [0.5, 0.25, 0.25],
    [0.25, 0.25, 0.5],
  ],
];

const within = (found: ArrayLike<number>, expected: number[]) =>
  expected.forEach((value, i) => expect(found[i]).toBeCloseTo(value, 3));

describe("packed shares", () => {
  it("reads float16, its smallest and its largest numbers too", () => {
    const bits = written([0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000], [5], "uint16");
    const found = numbers({ ...bits, dtype: "float16" });
    expect([...found]).toEqual([1, -2, 2 ** -24, 65504, -0]);
  });

  it("gives the same rows and columns from the largest entries as from all", () => {
    const sparse = unpacked({
      kind: "largest",
      kept: 2,
      shape: [1, 2, 3],
      starts: written([0, 2, 3], [3], "uint32"),
      indices: written([0, 2, 2], [3], "uint16"),
      values: written([0.5, 0.25, 1], [3], "float16"),
    });
    const columns: number[][] = [[], [], []];
    for (const source of [0, 1, 2])
      sparse.eachOfColumn(0, source, (row, value) => columns[source]!.push(row, value));
    expect(columns).toEqual([[0, 0.5], [], [0, 0.25, 1, 1]]);
    expect(sparse.complete).toBe(false);
  });
});

describe("rows over words", () => {
  const text = {
    ...textOf("un", "real", "x"),
    words: [
      [0, 2],
      [2, 3],
    ] as [number, number][],
  };
  const scores = [
    [
      [4, 0, 4],
      [1, 1, 2],
      [0, 3, 1],
    ],
  ];
  const measured = new Measured(payloadOf(text, scores), payloadOf(text, scores).maps[0]!);
  const words = new Grouping(text, "words");

  it("sums sources and averages targets by their scores, not by their shares", () => {
    // mean of the rows [4, 0, 4] and [1, 1, 2], columns 0 and 1 summed: 3 and 3
    within(measured.incoming({ depth: 0, head: null }, words, 0, words), [0.5, 0.5]);
    within(measured.incoming({ depth: 0, head: null }, words, 1, words), [0.75, 0.25]);
  });

  it("says of a source what each target says of it", () => {
    const choice = { depth: 0, head: null };
    for (const source of [0, 1]) {
      const out = measured.outgoing(choice, words, words, source);
      [0, 1].forEach((target) =>
        expect(out[target]).toBeCloseTo(
          measured.incoming(choice, words, target, words)[source]!,
          3,
        ),
      );
    }
  });

  it("counts what was left out", () => {
    const payload = payloadOf(textOf("a", "b"), [
      [
        [1, 1],
        [1, 1],
      ],
    ]);
    payload.maps[0]!.scores = {
      kind: "largest",
      kept: 1,
      shape: [1, 2, 2],
      starts: written([0, 1, 2], [3], "uint32"),
      indices: written([0, 1], [2], "uint16"),
      values: written([0.5, 0.5], [2], "float16"),
    };
    const few = new Measured(payload, payload.maps[0]!);
    const tokens = new Grouping(payload.texts[0]!, "tokens");
    within(few.incoming({ depth: 0, head: null }, tokens, 0, tokens), [0.5, 0]);
    expect(few.complete).toBe(false);
  });
});

describe("flow", () => {
  const joined = (residual: number, normalise: boolean) => ({
    how: "rollout",
    residual,
    normalise,
    scores: dense([MAPS[0]!]),
  });
  const text = textOf("a", "b", "c");

  it("brings the rollout's row of the target to the input", () => {
    const mixed = MAPS.map((map) =>
      map.map((row, i) => row.map((v, j) => 0.5 * v + (i === j ? 0.5 : 0))),
    );
    const payload = payloadOf(text, MAPS, { joined: joined(0.5, true) });
    const flow = traced(new Measured(payload, payload.maps[0]!), new Grouping(text, "tokens"), 1);
    within(flow.mass[0]!, product(mixed)[1]!);
    for (const level of flow.mass) expect(level.reduce((a, b) => a + b)).toBeCloseTo(1, 3);
  });

  it("does so too if rows do not add up to one", () => {
    const wide = MAPS.map((map, l) => map.map((row, i) => row.map((v) => v * (1 + l + 2 * i))));
    const payload = payloadOf(text, wide, { joined: joined(0, false) });
    const flow = traced(new Measured(payload, payload.maps[0]!), new Grouping(text, "tokens"), 2);
    const row = product(wide)[2]!;
    const total = row.reduce((a, b) => a + b);
    within(
      flow.mass[0]!,
      row.map((v) => v / total),
    );
    for (const level of flow.mass) expect(level.reduce((a, b) => a + b)).toBeCloseTo(1, 3);
  });

  it("follows layers up to one, and shows them joined", () => {
    const text = textOf("a", "b", "c");
    const joined = { how: "rollout(…)", residual: 0, scores: dense([MAPS[0]!, product(MAPS)]) };
    const payload = payloadOf(text, MAPS, { joined });
    const measured = new Measured(payload, payload.maps[0]!);
    const tokens = new Grouping(text, "tokens");
    expect(measured.depths).toEqual(["mean", "all", "to0", 0, 1]);
    expect(measured.depthName("to0")).toBe("Layers up to 0 (rollout)");
    within(measured.incoming({ depth: "to0", head: null }, tokens, 1, tokens), MAPS[0]![1]!);
    within(measured.incoming({ depth: "all", head: null }, tokens, 1, tokens), product(MAPS)[1]!);
    const flow = traced(measured, tokens, 1, 1);
    expect(flow.levels).toBe(2);
    within(flow.mass[0]!, MAPS[0]![1]!);
  });

  it("keeps of a traced token exactly what passes it", () => {
    const payload = payloadOf(text, MAPS, { joined: joined(0, true) });
    const flow = traced(new Measured(payload, payload.maps[0]!), new Grouping(text, "tokens"), 0);
    const edges = through(flow, 1, 1);
    const into = edges.filter((e) => e.level === 0).reduce((sum, e) => sum + e.value, 0);
    const from = edges.filter((e) => e.level === 1).reduce((sum, e) => sum + e.value, 0);
    expect(into).toBeCloseTo(flow.mass[1]![1]!, 3);
    expect(from).toBeCloseTo(flow.mass[1]![1]!, 3);
    expect(edges.filter((e) => e.level === 0).every((e) => e.target === 1)).toBe(true);
  });
});

describe("ranks", () => {
  it("share the mean if sizes are equal, and leave signs out", () => {
    expect([...ranks([0.1, -0.5, 0.1, 0.3])]).toEqual([3.5, 1, 3.5, 2]);
    expect(spearman([1, 2, 3], [-2, -4, -6])).toBeCloseTo(1);
    expect(spearman([1, 2, 3], [3, 2, 1])).toBeCloseTo(-1);
    expect(spearman([1, 1], [1, 2])).toBeNaN();
  });

  it("leave the target out, and put the most disputed first", () => {
    const found = disputes(
      [
        [0.9, 0.5, 0.1, 0],
        [0, 0.1, 0.4, 0.1],
      ],
      0,
    );
    expect(found.map((each) => each.group)).toEqual([1, 2, 3]);
    expect(found[0]).toMatchObject({ high: 0, low: 1, highRank: 1, lowRank: 2.5 });
    expect(ranked([0.2, -0.9, 0], -1).map((each) => each.group)).toEqual([1, 0]);
    expect(largest([9, -3, 2], 0)).toBe(3);
  });
});

it("writes CSV that no spreadsheet takes for a formula", () => {
  expect(
    csv([
      ["=1+1", 'a"b', "-0.5", "-x"],
      ["a,b", "+", "c", ""],
    ]),
  ).toBe(`'=1+1,"a""b",-0.5,'-x\r\n"a,b",'+,c,\r\n`);
});

describe("the first depth", () => {
  const text = textOf("a", "b");
  const maps = [
    [
      [1, 0],
      [0.5, 0.5],
    ],
    [
      [1, 0],
      [0.9, 0.1],
    ],
  ];
  const joined = {
    how: "rollout()",
    residual: 0,
    scores: dense(maps),
    warnings: [null, "collapsed"],
  };
  const made = (more: Partial<Entry>) => {
    const payload = payloadOf(text, maps, more);
    return new Measured(payload, payload.maps[0]!);
  };

  it("is the one that Python names, else the mean, never the rollout", () => {
    expect(made({ joined }).defaultDepth).toBe("mean");
    expect(made({ joined, reading: "mean" }).defaultDepth).toBe("mean");
    expect(made({ joined, reading: "all" }).defaultDepth).toBe("all");
    expect(made({ reading: 0 }).defaultDepth).toBe(0);
    expect(made({ reaches_input: true }).defaultDepth).toBe(1);
    expect(made({}).depthName("mean")).toBe("Mean of 2 layers");
  });

  it("has the warning of what is shown, and of nothing else", () => {
    const rolled = made({ joined });
    expect(rolled.warningAt("all")).toBe("collapsed");
    expect(rolled.warningAt("to0")).toBeNull();
    expect(rolled.warningAt("mean")).toBeNull();
    expect(made({ warnings: [null, "itself"] }).warningAt(1)).toBe("itself");
  });

  it("has an own share only if the diagonal holds the residual stream", () => {
    const rolled = made({ joined: { ...joined, own_share: true } });
    expect([rolled.hasOwnShare("mean"), rolled.hasOwnShare("all")]).toEqual([false, true]);
    expect(made({ own_share: true }).hasOwnShare(0)).toBe(true);
  });
});

describe("sources that are left out", () => {
  const text = { ...textOf("<s>", "b", "c"), special: [1, 0, 0] };
  const payload = payloadOf(text, MAPS);
  const choice = { depth: 0, head: null };

  it("take nothing, and the others add up to one", () => {
    const measured = new Measured(payload, payload.maps[0]!);
    const tokens = new Grouping(text, "tokens");
    expect(hideChoices(measured, new Set()).map(([name]) => name)).toEqual(["none", "special"]);
    const gone = hiddenSources(text, "special", new Set());
    expect(measured.shareOf(choice, tokens, 1, gone)).toBeCloseTo(0.125, 3);
    measured.leaveOut(gone);
    within(measured.incoming(choice, tokens, 1, tokens), [0, 0.625 / 0.875, 0.25 / 0.875]);
    within(measured.outgoing(choice, tokens, tokens, 1), [0.5, 0.625 / 0.875, 0]);
    within(measured.outgoing(choice, tokens, tokens, 0), [0, 0, 0]);
  });

  it("are all but documents, of a prompt that has them", () => {
    const prompt: Text = {
      ...textOf(..."abcd"),
      segments: [
        [0, 1, "question"],
        [1, 3, "document 1"],
        [3, 4],
      ],
    };
    const documents = new Set(["document 1"]);
    expect([...hiddenSources(prompt, "others", documents)]).toEqual([0, 3]);
    const tokens = new Grouping(prompt, "tokens");
    expect(tokens.placed(1)).toBe("b (document 1)");
    expect(tokens.placed(3)).toBe("d");
  });

  it("say how far targets are alike", () => {
    const same = textOf(..."abcdefgh");
    const row = [0.86, ...Array<number>(7).fill(0.02)];
    const alone = payloadOf(same, [Array<number[]>(8).fill(row)]);
    const found = alike(new Measured(alone, alone.maps[0]!), choice)!;
    expect(isSink(found)).toBe(true);
    const apart = payloadOf(textOf(..."abcd"), [
      [
        [0.1, 0.9, 0, 0],
        [0, 0.1, 0.9, 0],
        [0, 0, 0.1, 0.9],
        [0.9, 0, 0, 0.1],
      ],
    ]);
    expect(alike(new Measured(apart, apart.maps[0]!), choice)).toBeNull();
  });
});
