// What a session's page shows and offers, from what the operator says of it: the decision table of
// the gateway's contract as a pure function. It decides nothing about the session, and an unknown
// boolean (absent) is neither yes nor no here: nothing is offered on a guess.

import { MEANINGS, type SessionView } from "./wire";

export type Offer = "resume" | "try_again" | "retry" | "fresh_start" | "create";

export interface Banner {
  readonly tone: "info" | "warning" | "error";
  readonly text: string;
  readonly offers: readonly Offer[];
}

export interface Decision {
  /** Shell, files and git. */
  readonly panels: boolean;
  /** What is being waited for, in words; null: nothing is. */
  readonly waiting: string | null;
  readonly banner: Banner | null;
  /** Resume without being asked, since the person chose so. */
  readonly autoResume: boolean;
}

const QUIET = { waiting: null, banner: null, autoResume: false } as const;

export const CANNOT_RESUME =
  "This agent cannot resume previous sessions. Create a new session.";
export const NOTHING_TO_RESUME = "There is nothing to resume yet. Create a new session.";

/** Rows in order; the first that fits is what the page shows. */
export function decide(view: SessionView, chosenAuto: boolean): Decision {
  const panels = view.executor_status === "ready" && !view.deleting;
  if (view.deleting) return banner(false, "info", "This session is being deleted.", []);
  if (view.is_agent_running === true) return { panels, ...QUIET };
  if (view.operating_mode === "Finished") {
    return banner(panels, "info", "This session is finished. It can be read, not continued.", [
      "create",
    ]);
  }
  switch (view.executor_status) {
    case "starting":
      return { ...QUIET, panels: false, waiting: "The executor is starting." };
    case "error":
      return banner(false, "error", reason(view, "The executor failed."), ["retry"]);
    case "stopped":
      return banner(false, "info", rest(view), ["resume"]);
    case "ready":
      return agentOf(view, chosenAuto, panels);
    default:
      return withoutExecutor(view);
  }
}

/** The executor is ready: what about the agent? */
function agentOf(view: SessionView, chosenAuto: boolean, panels: boolean): Decision {
  if (view.operating_mode === "WorkspaceOnly") return { panels, ...QUIET };
  if (isSuspended(view)) return banner(panels, "info", rest(view), ["resume"]);
  if (view.state === "STARTING") return { ...QUIET, panels, waiting: "The agent is starting." };
  if (view.is_agent_running !== false) return { panels, ...QUIET };
  const word = view.resume_reason ?? "";
  if (view.is_resumable === false && word === "not_resumable") {
    return banner(panels, "warning", CANNOT_RESUME, ["create"]);
  }
  if (view.is_resumable === false && word === "missing_resume_token") {
    return banner(panels, "warning", NOTHING_TO_RESUME, ["create"]);
  }
  if (view.state === "ERROR" && hasFailed(word)) {
    const text = reason(view, "The conversation could not be taken up again.");
    return banner(panels, "error", text, ["try_again", "fresh_start", "create"]);
  }
  if (view.needs_resume === true && view.is_resumable === true) {
    const auto = chosenAuto && view.resume_policy === "OnRequest";
    const told = banner(panels, "info", reason(view, "The agent is not running."), ["resume"]);
    return { ...told, autoResume: auto };
  }
  if (view.state === "ERROR") {
    const text = reason(view, "The agent could not be started.");
    return banner(panels, "error", text, ["try_again", "fresh_start", "create"]);
  }
  return { panels, ...QUIET };
}

/** An agent that merely ended was not yet asked back; every other word is a failed attempt. */
function hasFailed(word: string): boolean {
  return word !== "" && !["agent_not_running", "agent_exited", "executor_not_ready"].includes(word);
}

/** No executor was chosen yet, or it was given back. */
function withoutExecutor(view: SessionView): Decision {
  if (isSuspended(view)) return banner(false, "info", rest(view), ["resume"]);
  if (view.state === "ERROR") return banner(false, "error", reason(view, "It failed."), ["retry"]);
  if (view.state === "CREATED" || view.state === "STARTING") {
    return { ...QUIET, panels: false, waiting: "Waiting for a place to run." };
  }
  return { panels: false, ...QUIET };
}

/** By a person, or by itself (idle, or for too long). */
export function isSuspended(view: SessionView): boolean {
  return view.operating_mode === "Suspended" || Boolean(view.suspended);
}

const RESTS: Record<string, string> = {
  IdleTimeout: "This session was idle and is suspended. Its files are kept.",
  Expired: "This session has run for as long as it may and is suspended. Its files are kept.",
};

function rest(view: SessionView): string {
  if (isSuspended(view)) {
    return RESTS[view.suspended ?? ""] ?? "This session is suspended. Its files are kept.";
  }
  return reason(view, "The executor is stopped. Its files are kept.");
}

/** `word: one sentence` of the operator without the word; else what the word means; else `other`. */
export function reason(view: SessionView, other: string): string {
  const told = view.error_message ?? "";
  const sentence = /^[a-z0-9_]+: (.+)$/s.exec(told)?.[1] ?? told;
  if (sentence !== "") return sentence;
  const word = view.resume_reason ?? "";
  if (word === "") return other;
  return MEANINGS[word] ?? `${word.replaceAll("_", " ")}.`;
}

function banner(
  panels: boolean,
  tone: Banner["tone"],
  text: string,
  offers: readonly Offer[],
): Decision {
  return { panels, waiting: null, banner: { tone, text, offers }, autoResume: false };
}

/** May words be sent now? The draft is kept either way. */
export function promptable(view: SessionView): boolean {
  return view.is_agent_running === true && view.state !== "STARTING";
}
