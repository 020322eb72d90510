// Offsets on the wire count code points, as Python does; JavaScript counts UTF-16 units. Whoever
// cuts a text at an offset of the wire asks here.

const PAIRS = /[\ud800-\udbff][\udc00-\udfff]/g;

/** How many code points a text has; a lone surrogate counts as one. */
export function points(text: string): number {
  return text.length - (text.match(PAIRS)?.length ?? 0);
}

/** The index in UTF-16 units of a code point's offset; the text's end if it is shorter. */
export function unitIndex(text: string, offset: number): number {
  let units = 0;
  for (let left = offset; left > 0 && units < text.length; left -= 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  }
  return units;
}

/** What comes before an offset of the wire. */
export function head(text: string, offset: number): string {
  return text.slice(0, unitIndex(text, offset));
}
