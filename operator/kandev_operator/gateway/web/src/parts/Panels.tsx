// Shell, files and git beside the conversation. They can be used as soon as agentctl is ready, whatever
// the agent does; before that the tabs are there and say why nothing opens.

import type { ComponentType, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../session";
import { Files } from "./Files";
import { Git } from "./Git";

type Tab = "shell" | "files" | "git";
const TABS: readonly Tab[] = ["shell", "files", "git"];
const LABELS: Record<Tab, string> = { shell: "Shell", files: "Files", git: "Git" };

interface Props {
  readonly session: Session;
  readonly enabled: boolean;
}

export function Panels({ session, enabled }: Props): VNode {
  const [chosen, choose] = useState<Tab | null>(null);
  const tabs = useRef<HTMLDivElement>(null);
  const open = enabled ? chosen : null;
  const onKey = (event: KeyboardEvent) => {
    const at = TABS.findIndex((each) => document.activeElement?.id === `tab-${each}`);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (at < 0 || step === 0) return;
    event.preventDefault();
    const next = TABS[(at + step + TABS.length) % TABS.length] as Tab;
    tabs.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <section class={`panels ${open === null ? "folded" : ""}`} aria-label="Workspace">
      <div class="tabs" role="tablist" aria-label="Workspace" ref={tabs} onKeyDown={onKey}>
        {TABS.map((each, at) => (
          <button type="button" role="tab" id={`tab-${each}`} key={each} disabled={!enabled}
            aria-selected={open === each} aria-controls={open === each ? "panel" : undefined}
            tabIndex={open === each || (open === null && at === 0) ? 0 : -1}
            onClick={() => choose(open === each ? null : each)}>
            {LABELS[each]}
          </button>
        ))}
        {!enabled && <span class="quiet">when the executor is ready</span>}
      </div>
      {open !== null && (
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${open}`} class="panel">
          {open === "shell" && <LateTerminal session={session} />}
          {open === "files" && <Files session={session} />}
          {open === "git" && <Git session={session} />}
        </div>
      )}
    </section>
  );
}

type Loaded = ComponentType<{ session: Session }>;

function LateTerminal({ session }: { session: Session }): VNode {
  const [loaded, setLoaded] = useState<{ View: Loaded } | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    import("./Terminal").then(
      (module) => setLoaded({ View: module.default }),
      () => setTrouble("The terminal could not be loaded. Load the page again."),
    );
  }, []);
  if (trouble !== "") return <p role="alert">{trouble}</p>;
  return loaded === null ? <p class="quiet">Loading…</p> : <loaded.View session={session} />;
}
