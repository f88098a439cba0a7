// How one text differs from another, line by line.

export interface Line {
  text: string;
  in: "both" | "left" | "right";
}

const longest = 400; // lines of a text; of more only the beginning is compared

// diff returns the lines of both texts in order; what both have comes once.
export function diff(left: string, right: string): Line[] {
  const a = left.split("\n").slice(0, longest);
  const b = right.split("\n").slice(0, longest);
  const common = commonLengths(a, b);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ text: a[i]!, in: "both" });
      i++;
      j++;
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push({ text: a[i++]!, in: "left" });
    } else {
      lines.push({ text: b[j++]!, in: "right" });
    }
  }
  return lines;
}

// commonLengths returns how many lines the rests of both texts have in common, from each pair
// of lines on.
function commonLengths(a: string[], b: string[]): number[][] {
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
    }
  }
  return common;
}
