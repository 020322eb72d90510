// What a reader must know about what they see: the socket, the cluster's watch, the history.

import type { VNode } from "preact";
import type { Session } from "../session";
import type { SessionView } from "../wire";

export function Notices({ session, view }: { session: Session; view: SessionView }): VNode | null {
  const words = noticesOf(session, view);
  if (words.length === 0) return null;
  return (
    <div class="notices" role="status">
      {words.map((each) => (
        <p key={each}>{each}</p>
      ))}
    </div>
  );
}

function noticesOf(session: Session, view: SessionView): string[] {
  const words: string[] = [];
  const link = session.line.link.value;
  if (link === "waiting") words.push("The connection is lost. It is being made again.");
  if (view.watch_stale) {
    words.push("The gateway has lost sight of the cluster: states are the last that were known.");
  }
  const history = session.history.value;
  if (history?.late) words.push("History is late: older messages may be missing for now.");
  if (history && !history.following && view.executor_status === "ready") {
    words.push("The agent's words are not being heard right now; they will come.");
  }
  if (view.interrupted_prompt_id) {
    words.push("The last turn was cut off. It was not sent again.");
  }
  return words;
}
