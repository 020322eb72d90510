// Open questions of the agent, each with the agent's own answers as buttons.

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Refused } from "../connection";
import type { Session } from "../session";
import type { PermissionNotice } from "../wire";

export function Permissions({ session }: { session: Session }): VNode | null {
  const open = session.permissions.value;
  if (open.length === 0) return null;
  return (
    <div class="questions">
      {open.map((each) => (
        <Question key={each.permission_id} session={session} asked={each} />
      ))}
    </div>
  );
}

function Question({ session, asked }: { session: Session; asked: PermissionNotice }): VNode {
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const answer = async (option: string | null) => {
    setBusy(true);
    const payload = { session_id: session.id, permission_id: asked.permission_id, option_id: option };
    try {
      await session.line.request("permission.respond", payload);
      session.answered(asked.permission_id);
    } catch (why) {
      setTrouble(why instanceof Refused ? why.message : String(why));
      setBusy(false);
    }
  };
  const options = asked.options ?? [];
  const refusable = !options.some((option) => option.kind.startsWith("reject"));
  return (
    <section class="question" aria-label="The agent asks for permission">
      <p>
        <strong>The agent asks for permission</strong>
        {asked.tool_kind ? ` (${asked.tool_kind})` : ""}: {asked.title}
      </p>
      <div class="offers">
        {options.map((option) => (
          <button
            type="button"
            key={option.option_id}
            class={option.kind.startsWith("allow") ? "primary" : ""}
            disabled={busy}
            onClick={() => void answer(option.option_id)}
          >
            {option.name}
          </button>
        ))}
        {refusable && (
          <button type="button" disabled={busy} onClick={() => void answer(null)}>
            Refuse
          </button>
        )}
      </div>
      {trouble !== "" && <p role="alert">{trouble}</p>}
    </section>
  );
}
