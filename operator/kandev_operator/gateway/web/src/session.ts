// One session as the page follows it: the newest view, the conversation, open permissions. It asks
// for what it missed whenever the socket opens, and takes notices for this session alone.

import { signal } from "@preact/signals";
import { Refused, type Connection } from "./connection";
import { Conversation } from "./conversation";
import type {
  HistoryState,
  LiveWords,
  MessageChange,
  MessagePage,
  Missing,
  Notice,
  PermissionNotice,
  SessionView,
  TurnNotice,
} from "./wire";

const PAGE = 100;
const AGAIN_MS = 3_000;

export class Session {
  readonly view = signal<SessionView | null>(null);
  readonly talk = new Conversation();
  /** Grows whenever `talk` changed: its readers look again. */
  readonly said = signal(0);
  readonly permissions = signal<readonly PermissionNotice[]>([]);
  readonly history = signal<HistoryState | null>(null);
  readonly gone = signal(false);
  readonly deleted = signal(false);
  readonly loadingOlder = signal(false);
  readonly trouble = signal("");
  /** What the newest turn came to, for who does not see the page. */
  readonly announcement = signal("");
  private ends: (() => void)[] = [];
  private again: ReturnType<typeof setTimeout> | undefined;
  private painting = false;
  private loaded = false;

  constructor(
    readonly id: string,
    readonly line: Connection,
    first: SessionView | null,
    page: MessagePage | null,
  ) {
    if (first !== null) this.view.value = first;
    if (page !== null) {
      this.talk.newest(page);
      this.loaded = !page.late;
    }
  }

  start(): void {
    this.ends = [
      this.line.onNotice((action, payload) => this.notice(action, payload)),
      this.line.onOpen(() => void this.opened()),
    ];
  }

  stop(): void {
    for (const end of this.ends) end();
    clearTimeout(this.again);
    this.line.tell("session.unsubscribe", { session_id: this.id });
  }

  /** A later version replaces an earlier one, whichever came first. */
  takeView(view: SessionView): void {
    const known = this.view.value;
    if (known === null || view.version >= known.version) this.view.value = view;
  }

  async older(): Promise<void> {
    if (this.talk.before === null || this.loadingOlder.value) return;
    this.loadingOlder.value = true;
    try {
      const ask = { session_id: this.id, before: this.talk.before, limit: PAGE };
      this.talk.older(await this.line.request<MessagePage>("message.list", ask));
      this.trouble.value = "";
    } catch (why) {
      this.trouble.value = why instanceof Refused ? why.message : String(why);
    } finally {
      this.loadingOlder.value = false;
      this.said.value += 1;
    }
  }

  private async opened(): Promise<void> {
    clearTimeout(this.again);
    try {
      if (!this.loaded) await this.readNewest();
      const ask = { session_id: this.id, cursor: this.talk.cursor };
      this.takeView(await this.line.request<SessionView>("session.subscribe", ask));
      this.gone.value = false;
      await this.readPermissions();
    } catch (why) {
      this.failed(why);
    }
  }

  private failed(why: unknown): void {
    if (!(why instanceof Refused)) throw why;
    if (why.code === "not_found") this.gone.value = true;
    else if (why.code !== "connection_lost") {
      this.again = setTimeout(() => void this.opened(), AGAIN_MS);
    }
  }

  /** History that is late does not keep the live words waiting. */
  private async readNewest(): Promise<void> {
    try {
      const ask = { session_id: this.id, limit: PAGE };
      const page = await this.line.request<MessagePage>("message.list", ask);
      this.talk.newest(page);
      this.loaded = !page.late;
      this.said.value += 1;
    } catch (why) {
      if (!(why instanceof Refused) || why.code !== "history_unavailable") throw why;
    }
  }

  private async readPermissions(): Promise<void> {
    const ask = { session_id: this.id };
    const found = await this.line
      .request<{ permissions?: PermissionNotice[] }>("permission.list", ask)
      .catch((why: unknown) => {
        if (why instanceof Refused) return null;
        throw why;
      });
    if (found !== null) this.permissions.value = found.permissions ?? [];
  }

  private notice(action: Notice, payload: Record<string, unknown>): void {
    if (payload["session_id"] !== this.id) return;
    const cursor = payload["cursor"];
    if (action === "session.turn" || action.startsWith("permission.")) {
      this.talk.heard(typeof cursor === "string" ? cursor : null);
    }
    switch (action) {
      case "session.state":
        this.takeView(payload as unknown as SessionView);
        break;
      case "session.deleted":
        this.deleted.value = true;
        break;
      case "session.message.added":
      case "session.message.updated":
        this.talk.change(payload as unknown as MessageChange);
        this.repaint();
        break;
      case "session.message.live":
        this.talk.live(payload as unknown as LiveWords);
        this.repaint();
        break;
      case "session.message.gap":
        this.talk.missing(payload as unknown as Missing);
        this.repaint();
        break;
      case "session.history":
        this.takeHistory(payload as unknown as HistoryState);
        break;
      case "permission.requested":
        this.asked(payload as unknown as PermissionNotice);
        break;
      case "permission.resolved":
        this.answered((payload as unknown as PermissionNotice).permission_id);
        break;
      case "session.turn":
        this.turn(payload as unknown as TurnNotice);
        break;
    }
  }

  private takeHistory(state: HistoryState): void {
    this.history.value = state;
    if (!state.late && !this.loaded) void this.readNewest().catch((why) => this.failed(why));
  }

  private asked(question: PermissionNotice): void {
    const others = this.permissions.value.filter(
      (each) => each.permission_id !== question.permission_id,
    );
    this.permissions.value = [...others, question];
    this.announcement.value = `The agent asks for permission: ${question.title ?? ""}`;
  }

  answered(id: string): void {
    this.permissions.value = this.permissions.value.filter((each) => each.permission_id !== id);
  }

  private turn(turn: TurnNotice): void {
    if (turn.what !== "ended") return;
    this.talk.quiet();
    this.announcement.value =
      turn.outcome === "completed" || turn.stop_reason === "end_turn"
        ? "The agent has answered."
        : `The turn ended: ${(turn.stop_reason ?? turn.outcome ?? "unknown").replaceAll("_", " ")}.`;
    this.repaint();
  }

  /** Words come faster than a screen can show them: look once per frame. */
  private repaint(): void {
    if (this.talk.torn && this.loaded) {
      this.loaded = false;
      void this.readNewest().catch((why) => this.failed(why));
    }
    if (this.painting) return;
    this.painting = true;
    const paint = () => {
      this.painting = false;
      this.said.value += 1;
    };
    if (document.visibilityState === "visible") requestAnimationFrame(paint);
    else setTimeout(paint, 200);
  }
}
