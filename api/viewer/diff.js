// A word-by-word diff of two texts. Pure.

const MAX_CELLS = 4e6;

/** `[kind, text]`, in order: kind is "same", "gone" or "new". Texts too long to compare give one "gone" and one "new".
 * */
export function diff(before, after) {
  const [a, b] = [words(before), words(after)];
  if ((a.length + 1) * (b.length + 1) > MAX_CELLS)
    return [
      ["gone", before],
      ["new", after],
    ];
  const common = lengths(a, b);
  const steps = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      step(steps, "same", a[i]);
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || common[i + 1][j] >= common[i][j + 1])) {
      step(steps, "gone", a[i]);
      i += 1;
    } else {
      step(steps, "new", b[j]);
      j += 1;
    }
  }
  return steps;
}

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** The length of the longest common subsequence of the suffixes that begin at i and j. */
function lengths(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}

function step(steps, kind, text) {
  const last = steps.at(-1);
  if (last?.[0] === kind) last[1] += text;
  else steps.push([kind, text]);
}
