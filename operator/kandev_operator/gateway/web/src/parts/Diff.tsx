// A unified diff, line by line, with the numbers of both sides. Signs and words say what colours
// say, so nobody needs to see colours.

import { parsePatch, structuredPatch, type StructuredPatch } from "diff";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";

const SHOWN_LINES = 2_000;

interface Row {
  readonly kind: "added" | "removed" | "same" | "hunk";
  readonly old: number | null;
  readonly fresh: number | null;
  readonly text: string;
}

/** Of two texts (a tool call's). */
export function TextDiff(props: { path: string; before: string; after: string }): VNode {
  const { path, before, after } = props;
  const patch = useMemo(
    () => structuredPatch(path, path, before, after, undefined, undefined, { context: 3, timeout: 500 }),
    [path, before, after],
  );
  if (patch === undefined) return <p>This change is too large to be shown line by line.</p>;
  return <Table label={`Changes to ${path}`} rows={rowsOf([patch])} />;
}

/** Of git's own words. A patch that cannot be read is shown as it is. */
export function PatchDiff({ path, patch }: { path: string; patch: string }): VNode {
  const rows = useMemo(() => parsed(patch), [patch]);
  if (rows === null) return <pre tabIndex={0}>{patch}</pre>;
  return <Table label={`Changes to ${path}`} rows={rows} />;
}

function parsed(patch: string): readonly Row[] | null {
  try {
    return rowsOf(parsePatch(patch));
  } catch {
    return null;
  }
}

export function rowsOf(patches: readonly StructuredPatch[]): readonly Row[] {
  const rows: Row[] = [];
  for (const hunk of patches.flatMap((each) => each.hunks)) {
    let old = hunk.oldStart;
    let fresh = hunk.newStart;
    const text = `@@ −${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`;
    rows.push({ kind: "hunk", old: null, fresh: null, text });
    for (const line of hunk.lines) {
      const words = line.slice(1);
      if (line.startsWith("+")) {
        rows.push({ kind: "added", old: null, fresh, text: words });
        fresh += 1;
      } else if (line.startsWith("-")) {
        rows.push({ kind: "removed", old, fresh: null, text: words });
        old += 1;
      } else if (line.startsWith(" ")) {
        rows.push({ kind: "same", old, fresh, text: words });
        old += 1;
        fresh += 1;
      }
    }
  }
  return rows;
}

const SIGNS = { added: "+", removed: "−", same: " ", hunk: "" } as const;

function Table({ label, rows }: { label: string; rows: readonly Row[] }): VNode {
  const shown = rows.slice(0, SHOWN_LINES);
  return (
    <div class="diff wide" tabIndex={0} role="region" aria-label={label}>
      <table>
        <tbody>
          {shown.map((row) => (
            <tr class={row.kind}>
              <td class="number">{row.old ?? ""}</td>
              <td class="number">{row.fresh ?? ""}</td>
              <td class="sign">{SIGNS[row.kind]}</td>
              <td class="line">{row.text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < rows.length && <p>{rows.length - shown.length} more lines.</p>}
    </div>
  );
}

