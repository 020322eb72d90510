// Where a person writes. The draft is kept on this machine until the words are accepted: a refusal,
// a lost connection or a closed laptop costs no word.

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused } from "../connection";
import { freshId } from "../ids";
import { promptable, reason } from "../resumption";
import type { Session } from "../session";
import { remember, remembered } from "../settings";
import type { SessionView } from "../wire";

interface Draft {
  readonly text: string;
  /** The id under which this very text was sent without any answer coming back. */
  readonly tried: string;
}

function load(id: string): Draft {
  return { text: remembered(`draft.${id}`), tried: remembered(`tried.${id}`) };
}

function save(id: string, draft: Draft): void {
  remember(`draft.${id}`, draft.text);
  remember(`tried.${id}`, draft.tried);
}

export function PromptBox({ session, view }: { session: Session; view: SessionView }): VNode {
  const [draft, setDraft] = useState(() => load(session.id));
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => save(session.id, draft), [session, draft]);
  useEffect(() => grow(area.current), [draft]);
  const send = async () => {
    if (busy || draft.text.trim() === "") return;
    setBusy(true);
    setTrouble("");
    const id = draft.tried === "" ? freshId() : draft.tried;
    setDraft({ text: draft.text, tried: id });
    try {
      const payload = { session_id: session.id, prompt_id: id, text: draft.text };
      await session.line.request("session.prompt", payload);
      setDraft({ text: "", tried: "" });
    } catch (why) {
      setTrouble(refusal(why, view));
      // What was refused was not sent; what got no answer may have been, so it keeps its id.
      const unknown = why instanceof Refused && ["connection_lost", "unreachable"].includes(why.code);
      if (!unknown) setDraft({ text: draft.text, tried: "" });
    } finally {
      setBusy(false);
      area.current?.focus();
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void send();
    }
  };
  const typed = (event: Event) => {
    setDraft({ text: (event.target as HTMLTextAreaElement).value, tried: "" });
  };
  const ready = promptable(view) && session.line.link.value === "open";
  return (
    <form class="prompt" onSubmit={(event) => (event.preventDefault(), void send())}>
      {trouble !== "" && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
      <label class="hidden" for="prompt">
        Prompt
      </label>
      <textarea id="prompt" ref={area} rows={1} value={draft.text} onInput={typed} onKeyDown={onKey}
        placeholder={ready ? "Write to the agent" : "Write; it is kept until it can be sent"} />
      <div class="sending">
        <Cancel session={session} view={view} />
        <button type="submit" class="primary" disabled={busy || draft.text.trim() === ""}>
          {busy ? "Sending…" : "Send"}
        </button>
      </div>
    </form>
  );
}

function Cancel({ session, view }: { session: Session; view: SessionView }): VNode | null {
  const [busy, setBusy] = useState(false);
  if (view.state !== "RUNNING") return null;
  const cancel = async () => {
    setBusy(true);
    try {
      await session.line.request("agent.cancel", { session_id: session.id });
    } catch (why) {
      session.trouble.value = why instanceof Refused ? why.message : String(why);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" disabled={busy} onClick={() => void cancel()}>
      Cancel turn
    </button>
  );
}

function refusal(why: unknown, view: SessionView): string {
  if (!(why instanceof Refused)) return String(why);
  switch (why.code) {
    case "agent_not_ready":
      return "Not sent: the agent is still starting. Your words are kept.";
    case "agent_not_running":
      return `Not sent, your words are kept. ${reason(view, "No agent is running.")}`;
    case "connection_lost":
    case "unreachable":
      return `${why.message} Your words are kept; sending again sends them only once.`;
    default:
      return `Not sent, your words are kept. ${why.message}`;
  }
}

const TALLEST_PX = 220;

function grow(area: HTMLTextAreaElement | null): void {
  if (area === null) return;
  area.style.height = "auto";
  area.style.height = `${Math.min(TALLEST_PX, area.scrollHeight + 2)}px`;
}
