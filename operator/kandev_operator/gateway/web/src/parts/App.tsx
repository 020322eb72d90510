// The page around its parts: head, address, focus.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Connection } from "../connection";
import { type Route, routeOf } from "../route";
import { Session } from "../session";
import { applyTheme, autoResume, theme } from "../settings";
import type { MessagePage, SessionView } from "../wire";
import { SessionPage } from "./SessionPage";
import { follow, type Listing, Overview, Tasks } from "./Tasks";

/** What the server rendered this page from. */
export interface FirstData extends Partial<Listing> {
  readonly session?: SessionView | null;
  readonly page?: MessagePage | null;
  readonly person?: string;
}

const place = signal<Route>(routeOf(location.pathname));

export function go(path: string): void {
  history.pushState(null, "", path);
  place.value = routeOf(path);
  document.querySelector<HTMLElement>("#content")?.focus();
}

addEventListener("popstate", () => {
  place.value = routeOf(location.pathname);
});

export function App({ line, first }: { line: Connection; first: FirstData }): VNode {
  const route = place.value;
  return (
    <>
      <a class="skip" href="#content">
        To the content
      </a>
      <Head person={first.person ?? ""} />
      {route.page === "list" ? (
        <ListOf line={line} first={first} />
      ) : (
        <SessionOf key={route.id} id={route.id} line={line} first={first} />
      )}
    </>
  );
}

function ListOf({ line, first }: { line: Connection; first: FirstData }): VNode {
  const overview = useMemo(
    () => new Overview(line, { tasks: first.tasks ?? [], sessions: first.sessions ?? [] }),
    [line],
  );
  useTitle("Tasks");
  return <Tasks overview={overview} go={go} />;
}

interface SessionProps {
  readonly id: string;
  readonly line: Connection;
  readonly first: FirstData;
}

function SessionOf({ id, line, first }: SessionProps): VNode {
  const session = useMemo(() => {
    const mine = first.session?.session_id === id;
    return new Session(id, line, mine ? (first.session ?? null) : null, mine ? (first.page ?? null) : null);
  }, [id, line]);
  useTitle(session.view.value?.name ?? "Session");
  return <SessionPage session={session} go={go} />;
}

function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · kandev`;
  }, [title]);
}

function Head({ person }: { person: string }): VNode {
  return (
    <header class="head">
      <a class="home" href="/" onClick={(event) => follow(event, go)}>
        kandev
      </a>
      <details class="settings">
        <summary>Settings</summary>
        <div class="menu">
          <label>
            Colours
            <select value={theme.value || "auto"}
              onChange={(event) => {
                theme.value = event.currentTarget.value;
                applyTheme();
              }}>
              <option value="auto">as the system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label class="check">
            <input type="checkbox" checked={autoResume.value === "yes"}
              onChange={(event) => {
                autoResume.value = event.currentTarget.checked ? "yes" : "";
              }} />
            Resume sessions by itself when their page is open (policy OnRequest)
          </label>
          {person !== "" && (
            <form method="post" action="/logout">
              <p class="quiet">{person}</p>
              <button type="submit" class="small">
                Log out
              </button>
            </form>
          )}
        </div>
      </details>
    </header>
  );
}
