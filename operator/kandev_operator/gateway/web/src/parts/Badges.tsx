// State and executor in a word each, with a mark beside the colour.

import type { VNode } from "preact";
import type { SessionView } from "../wire";

const MARKS: Record<string, string> = {
  RUNNING: "●", IN_PROGRESS: "●", STARTING: "◌", WAITING_FOR_INPUT: "○", REVIEW: "○",
  CREATED: "◌", TODO: "◌", ERROR: "✕", BLOCKED: "✕", COMPLETED: "✓", CANCELLED: "–",
  ready: "✓", starting: "◌", error: "✕", stopped: "■",
};

export function Badge({ word, prefix = "" }: { word: string; prefix?: string }): VNode {
  return (
    <span class={`badge ${word}`}>
      <span aria-hidden="true">{MARKS[word] ?? "·"} </span>
      {prefix}
      {word.replaceAll("_", " ").toLowerCase()}
    </span>
  );
}

export function Badges({ view }: { view: SessionView }): VNode {
  const resting = view.operating_mode !== "Running" && view.operating_mode !== "Finished";
  return (
    <span class="badges">
      <Badge word={view.state} />
      {view.executor_status && <Badge word={view.executor_status} prefix="executor " />}
      {resting && <span class="badge">{spaced(view.operating_mode)}</span>}
      {view.awaiting_permission === true && <span class="badge ERROR">asks for permission</span>}
    </span>
  );
}

function spaced(word: string): string {
  return word.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}
