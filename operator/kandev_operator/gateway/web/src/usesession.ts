// The decision table as a hook: what this session's page offers now, and the one thing that it does
// by itself.

import { useEffect, useMemo } from "preact/hooks";
import { type Decision, decide } from "./resumption";
import type { Session } from "./session";
import { autoResume } from "./settings";
import type { SessionView } from "./wire";

/** Decides from the newest view; `resume` is called once per intent where the person chose so. */
export function useSessionResumption(
  session: Session,
  view: SessionView,
  resume: () => void,
): Decision {
  const chosen = autoResume.value === "yes";
  const decision = useMemo(() => decide(view, chosen), [view, chosen]);
  // A new death is a new execution: the wish for the same one is not said twice.
  const occasion = decision.autoResume ? `${session.id}/${view.agent_execution_id ?? ""}` : "";
  useEffect(() => {
    if (occasion !== "") resume();
  }, [occasion]);
  return decision;
}
