// Characters that cannot be seen, or that would reorder what stands around them, by their names.

const NAMES: Record<number, string> = {
  0x00: "NUL",
  0x07: "BEL",
  0x08: "BS",
  0x09: "TAB",
  0x0a: "↵",
  0x0d: "CR",
  0x1b: "ESC",
  0x7f: "DEL",
  0xa0: "NBSP",
  0xad: "SHY",
  0x61c: "ALM",
  0x180e: "MVS",
  0x200b: "ZWSP",
  0x200c: "ZWNJ",
  0x200d: "ZWJ",
  0x200e: "LRM",
  0x200f: "RLM",
  0x2028: "LS",
  0x2029: "PS",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2060: "WJ",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
  0xfffc: "OBJ",
};

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu;
const JOINED = /[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;

/** The text with a name in brackets for each character that would not show. Joiners between two
 * letters or inside an emoji do show, by the shape they give, and stay. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character, at: number) => {
    const code = character.codePointAt(0)!;
    if (code === 0x0a) return "↵";
    if (code === 0x200c || code === 0x200d) {
      const before = [...text.slice(0, at)].pop() ?? "";
      const after = [...text.slice(at + 1)][0] ?? "";
      if (JOINED.test(before) && JOINED.test(after)) return character;
    }
    return `⟨${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}⟩`;
  });
}
