// Where measures agree and what they dispute, over all sources but the target itself.

/** Ranks from 1 (largest size) on; equal sizes share the mean of their ranks. */
export function ranks(values: ArrayLike<number>): Float64Array {
  const order = Array.from({ length: values.length }, (_, i) => i).sort(
    (a, b) => Math.abs(values[b]!) - Math.abs(values[a]!),
  );
  const found = new Float64Array(values.length);
  for (let i = 0; i < order.length; ) {
    let j = i;
    while (j < order.length && Math.abs(values[order[j]!]!) === Math.abs(values[order[i]!]!)) j++;
    for (let k = i; k < j; k++) found[order[k]!] = (i + 1 + j) / 2;
    i = j;
  }
  return found;
}

/** Spearman's rank correlation; NaN if one side is constant. */
export function spearman(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const x = ranks(a);
  const y = ranks(b);
  const mean = (x.length + 1) / 2;
  let xy = 0;
  let xx = 0;
  let yy = 0;
  for (let i = 0; i < x.length; i++) {
    xy += (x[i]! - mean) * (y[i]! - mean);
    xx += (x[i]! - mean) ** 2;
    yy += (y[i]! - mean) ** 2;
  }
  return xx && yy ? xy / Math.sqrt(xx * yy) : Number.NaN;
}

export function without(values: ArrayLike<number>, left: number): number[] {
  return Array.from(values).filter((_, i) => i !== left);
}

export interface Dispute {
  group: number;
  /** The measures (by number) that rank it highest and lowest, and their ranks. */
  high: number;
  low: number;
  highRank: number;
  lowRank: number;
  weight: number;
}

/** Groups on which rows differ most: by the difference of shares, largest first. */
export function disputes(rows: ArrayLike<number>[], target: number): Dispute[] {
  const kept = Array.from(rows[0] ?? [], (_, i) => i).filter((i) => i !== target);
  const placed = rows.map((row) => ranks(kept.map((i) => row[i]!)));
  const found = kept.map((group, at) => {
    const sizes = rows.map((row) => Math.abs(row[group]!));
    const high = sizes.indexOf(Math.max(...sizes));
    const low = sizes.indexOf(Math.min(...sizes));
    const weight = sizes[high]! - sizes[low]!;
    return { group, high, low, highRank: placed[high]![at]!, lowRank: placed[low]![at]!, weight };
  });
  return found.sort((a, b) => b.weight - a.weight);
}
