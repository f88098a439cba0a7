// groupBy puts things together that have the same key, both in the order they come in.
export function groupBy<T>(things: T[], keyOf: (thing: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const thing of things) {
    const key = keyOf(thing);
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, [thing]);
    } else {
      group.push(thing);
    }
  }
  return groups;
}
