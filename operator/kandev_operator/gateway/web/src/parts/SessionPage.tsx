// A session's page: who and where it is, what was said, what is asked, what can be done.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refused } from "../connection";
import { freshId } from "../ids";
import type { Offer } from "../resumption";
import { href } from "../route";
import type { Session } from "../session";
import { useSessionResumption } from "../usesession";
import type { Action, SessionView } from "../wire";
import { Badges } from "./Badges";
import { BannerArea } from "./Banner";
import { CreateDialog } from "./Create";
import { Messages } from "./Messages";
import { Notices } from "./Notices";
import { Panels } from "./Panels";
import { Permissions } from "./Permissions";
import { PromptBox } from "./PromptBox";
import { follow, Overview } from "./Tasks";

interface Props {
  readonly session: Session;
  readonly go: (path: string) => void;
}

export function SessionPage({ session, go }: Props): VNode {
  useEffect(() => {
    session.start();
    return () => session.stop();
  }, [session]);
  const view = session.view.value;
  if (session.gone.value || session.deleted.value) return <Missing deleted={session.deleted.value} go={go} />;
  if (view === null) {
    return (
      <main class="session" id="content" tabIndex={-1}>
        <h1 class="hidden">Session</h1>
        <p class="quiet" role="status">
          Loading the session…
        </p>
      </main>
    );
  }
  return <Followed session={session} view={view} go={go} />;
}

function Missing({ deleted, go }: { deleted: boolean; go: (path: string) => void }): VNode {
  return (
    <main class="list" id="content" tabIndex={-1}>
      <h1>{deleted ? "This session is gone" : "There is no such session"}</h1>
      {deleted && <p>It was deleted, or you may not see it any more.</p>}
      <p>
        <a href="/" onClick={(event) => follow(event, go)}>
          All tasks
        </a>
      </p>
    </main>
  );
}

function Followed({ session, view, go }: Props & { view: SessionView }): VNode {
  const [busy, setBusy] = useState(false);
  const [creating, setCreating] = useState(false);
  const wish = async (action: Action) => {
    setBusy(true);
    session.trouble.value = "";
    const wished = { session_id: session.id, request_id: freshId() };
    const payload = action === "session.stop" ? { session_id: session.id } : wished;
    try {
      await session.line.request(action, payload);
    } catch (why) {
      session.trouble.value = why instanceof Refused ? why.message : String(why);
    } finally {
      setBusy(false);
    }
  };
  const decision = useSessionResumption(session, view, () => void wish("session.resume"));
  const onOffer = (offer: Offer) => {
    if (offer === "create") setCreating(true);
    else void wish(offer === "fresh_start" ? "session.fresh_start" : "session.resume");
  };
  const suspendable = view.operating_mode === "Running" && !view.deleting;
  return (
    <main class="session" id="content" tabIndex={-1}>
      <div class="headline">
        <div>
          <h1>{view.name}</h1>
          <p class="quiet">
            {view.task_name} · {view.agent_profile_name}
            {view.worktree_branch ? ` · ${view.worktree_branch}` : ""}
          </p>
        </div>
        <span class="offers">
          <Badges view={view} />
          {suspendable && (
            <button type="button" class="small" disabled={busy} onClick={() => void wish("session.stop")}>
              Suspend
            </button>
          )}
        </span>
      </div>
      <Notices session={session} view={view} />
      <Messages session={session} />
      <div class="foot">
        <Permissions session={session} />
        <BannerArea decision={decision} busy={busy} onOffer={onOffer} />
        {session.trouble.value !== "" && (
          <p role="alert" class="trouble">
            {session.trouble.value}
          </p>
        )}
        <PromptBox key={session.id} session={session} view={view} />
      </div>
      <Panels session={session} enabled={decision.panels} />
      <p class="hidden" role="status" aria-live="polite">
        {session.announcement.value}
      </p>
      {creating && (
        <Another session={session} view={view} go={go} onClose={() => setCreating(false)} />
      )}
    </main>
  );
}

/** A new session of the same task. */
function Another(props: Props & { view: SessionView; onClose: () => void }): VNode {
  const { session, view, go, onClose } = props;
  const [overview] = useState(() => new Overview(session.line, { tasks: [], sessions: [] }));
  useEffect(() => {
    overview.start();
    return () => overview.stop();
  }, [overview]);
  const { tasks } = overview.listing.value;
  if (tasks.length === 0) return <p class="quiet">{overview.trouble.value || "Loading…"}</p>;
  return (
    <CreateDialog line={session.line} tasks={tasks} profiles={overview.profiles.value}
      task={`${view.namespace}/${view.task_name}`} onDone={(made) => go(href(made.session_id))}
      onClose={onClose} />
  );
}

