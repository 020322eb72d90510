// The list: tasks with their sessions. It follows `task.changed`, and asks for the whole again when
// something changed that it cannot see by itself.

import { signal, type Signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Connection, Refused } from "../connection";
import { href } from "../route";
import type { ProfileView, SessionView, TaskView } from "../wire";
import { Badge, Badges } from "./Badges";
import { CreateDialog } from "./Create";

export interface Listing {
  readonly tasks: readonly TaskView[];
  readonly sessions: readonly SessionView[];
}

const QUIET_MS = 400;

export class Overview {
  readonly listing: Signal<Listing>;
  readonly profiles = signal<readonly ProfileView[]>([]);
  readonly trouble = signal("");
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ends: (() => void)[] = [];

  constructor(
    readonly line: Connection,
    first: Listing,
  ) {
    this.listing = signal(first);
  }

  start(): void {
    this.ends = [
      this.line.onOpen(() => void this.read()),
      this.line.onNotice((action) => {
        if (action === "task.changed") this.soon();
      }),
    ];
  }

  stop(): void {
    for (const end of this.ends) end();
    clearTimeout(this.timer);
  }

  /** Many changes at once are one question. */
  private soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.read(), QUIET_MS);
  }

  private async read(): Promise<void> {
    try {
      const [listing, found] = await Promise.all([
        this.line.request<Listing>("task.list", {}),
        this.line.request<{ profiles: ProfileView[] }>("profile.list", {}),
      ]);
      this.listing.value = { tasks: listing.tasks ?? [], sessions: listing.sessions ?? [] };
      this.profiles.value = found.profiles ?? [];
      this.trouble.value = "";
    } catch (why) {
      if (!(why instanceof Refused)) throw why;
      if (why.code !== "connection_lost") this.trouble.value = why.message;
    }
  }
}

export function Tasks({ overview, go }: { overview: Overview; go: (path: string) => void }): VNode {
  const [creating, setCreating] = useState<string | null>(null);
  useEffect(() => {
    overview.start();
    return () => overview.stop();
  }, [overview]);
  const { tasks, sessions } = overview.listing.value;
  const newest = [...tasks].sort((one, two) => two.created_at.localeCompare(one.created_at));
  return (
    <main class="list" id="content" tabIndex={-1}>
      <div class="headline">
        <h1>Tasks</h1>
        <button type="button" class="primary" onClick={() => setCreating("")}>
          New session
        </button>
      </div>
      {overview.trouble.value !== "" && <p role="alert">{overview.trouble.value}</p>}
      {newest.length === 0 && <p class="quiet">There is no task yet. Begin with a new session.</p>}
      <ul class="tasks">
        {newest.map((task) => (
          <TaskCard key={task.task_id} task={task} go={go}
            sessions={sessions.filter((each) => each.task_id === task.task_id)}
            onCreate={() => setCreating(`${task.namespace}/${task.name}`)} />
        ))}
      </ul>
      {creating !== null && (
        <CreateDialog line={overview.line} tasks={tasks} profiles={overview.profiles.value}
          task={creating} onDone={(view) => go(href(view.session_id))}
          onClose={() => setCreating(null)} />
      )}
    </main>
  );
}

interface CardProps {
  readonly task: TaskView;
  readonly sessions: readonly SessionView[];
  readonly go: (path: string) => void;
  readonly onCreate: () => void;
}

function TaskCard({ task, sessions, go, onCreate }: CardProps): VNode {
  return (
    <li class="card">
      <div class="headline">
        <h2>{task.title}</h2>
        <Badge word={task.state} />
      </div>
      <p class="quiet">
        {task.namespace}/{task.name}
      </p>
      {task.description && <p class="description">{task.description}</p>}
      <ul class="sessions">
        {sessions.map((each) => (
          <li key={each.session_id}>
            <a href={href(each.session_id)} onClick={(event) => follow(event, go)}>
              {each.name}
            </a>
            <span class="quiet">{each.agent_profile_name}</span>
            <Badges view={each} />
          </li>
        ))}
      </ul>
      {!task.closed && (
        <button type="button" class="small" onClick={onCreate}
          aria-label={`New session for ${task.title}`}>
          New session
        </button>
      )}
    </li>
  );
}

/** A plain click stays in this page; any other is the browser's. */
export function follow(event: MouseEvent, go: (path: string) => void): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go((event.currentTarget as HTMLAnchorElement).pathname);
}
