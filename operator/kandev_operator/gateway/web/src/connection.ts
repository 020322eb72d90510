// The socket at /ws: requests with their answers, notices to whoever listens, and a new socket when
// one is lost. What must be asked anew after that is the listeners' own affair: they are told `open`.

import { signal } from "@preact/signals";
import { reconnectDelay } from "./backoff";
import type { Action, ErrorBody, Frame, Notice } from "./wire";

export type Link = "connecting" | "open" | "waiting" | "closed";
export type NoticeHandler = (action: Notice, payload: Record<string, unknown>) => void;

/** A request that was refused, or that got no answer (`code` is then `connection_lost`). */
export class Refused extends Error {
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(body: ErrorBody) {
    super(body.message);
    this.code = body.code;
    this.details = body.details ?? {};
  }
}

export interface Surroundings {
  open(url: string): WebSocket;
  /** A number in [0, 1). */
  dice(): number;
  /** Called when several tries failed without any socket ever opening: the login may be over. */
  suspect(): void;
}

interface Waiting {
  resolve(payload: unknown): void;
  reject(why: Refused): void;
  timer: ReturnType<typeof setTimeout>;
}

const ANSWER_MS = 30_000;
const PING_MS = 20_000;
const PONG_MS = 10_000;
/** The close code of a socket whose login is over. */
const LOGGED_OUT = 4401;
const GOING_AWAY = "gateway.going_away";

export class Connection {
  readonly link = signal<Link>("connecting");
  private socket: WebSocket | null = null;
  private readonly waiting = new Map<string, Waiting>();
  private readonly listeners = new Set<NoticeHandler>();
  private readonly openers = new Set<() => void>();
  private attempt = 0;
  private number = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private pinger: ReturnType<typeof setInterval> | undefined;

  constructor(
    private readonly url: string,
    private readonly around: Surroundings,
  ) {}

  start(): void {
    if (this.socket !== null || this.link.value === "closed") return;
    clearTimeout(this.retry);
    this.link.value = "connecting";
    const socket = this.around.open(this.url);
    this.socket = socket;
    socket.onopen = () => this.opened(socket);
    socket.onmessage = (event: MessageEvent) => {
      if (socket === this.socket && typeof event.data === "string") this.read(event.data);
    };
    socket.onclose = (event?: CloseEvent) => {
      if (socket === this.socket && event?.code === LOGGED_OUT) this.around.suspect();
      this.lost(socket);
    };
  }

  /** End for good. */
  close(): void {
    this.link.value = "closed";
    clearTimeout(this.retry);
    this.drop();
  }

  /** The machine woke, or the network came back: do not wait for a timer that slept, too. */
  wake(): void {
    if (this.link.value === "waiting") this.start();
    else if (this.link.value === "open") void this.ping();
  }

  onNotice(handler: NoticeHandler): () => void {
    this.listeners.add(handler);
    return () => this.listeners.delete(handler);
  }

  /** Called at every opening, the present one included. */
  onOpen(handler: () => void): () => void {
    this.openers.add(handler);
    if (this.link.value === "open") handler();
    return () => this.openers.delete(handler);
  }

  /** Ask; raises Refused. An answer that never came says nothing of what was done. */
  request<Answer>(action: Action, payload: object, patience = ANSWER_MS): Promise<Answer> {
    const socket = this.socket;
    if (socket === null || this.link.value !== "open") {
      return Promise.reject(lostWords());
    }
    this.number += 1;
    const id = `r${this.number}`;
    return new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(new Refused({ code: "connection_lost", message: "The gateway does not answer." }));
      }, patience);
      this.waiting.set(id, { resolve: (answer) => resolve(answer as Answer), reject, timer });
      const frame = { id, type: "request", action, payload, timestamp: new Date().toISOString() };
      socket.send(JSON.stringify(frame));
    });
  }

  /** Say something whose answer nobody waits for (keys typed into a shell). */
  tell(action: Action, payload: object): void {
    this.request(action, payload).catch(() => undefined);
  }

  private opened(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.attempt = 0;
    this.link.value = "open";
    clearInterval(this.pinger);
    this.pinger = setInterval(() => void this.ping(), PING_MS);
    for (const opener of [...this.openers]) opener();
  }

  private async ping(): Promise<void> {
    const socket = this.socket;
    try {
      await this.request("ping", {}, PONG_MS);
    } catch (why) {
      // A refusal is an answer, too: someone is there.
      const silent = why instanceof Refused && why.code === "connection_lost";
      if (silent && socket !== null && socket === this.socket) this.lost(socket);
    }
  }

  private lost(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.drop();
    if (this.link.value === "closed") return;
    this.link.value = "waiting";
    if (this.attempt >= 2) this.around.suspect();
    const delay = reconnectDelay(this.attempt, this.around.dice());
    this.attempt += 1;
    this.retry = setTimeout(() => this.start(), delay);
  }

  private drop(): void {
    clearInterval(this.pinger);
    const socket = this.socket;
    this.socket = null;
    if (socket !== null) socket.close();
    for (const each of this.waiting.values()) {
      clearTimeout(each.timer);
      each.reject(lostWords());
    }
    this.waiting.clear();
  }

  private read(text: string): void {
    const frame = JSON.parse(text) as Frame;
    const payload = frame.payload ?? {};
    if (frame.type === "notification") {
      if (frame.action === GOING_AWAY && this.socket !== null) {
        this.lost(this.socket);
        return;
      }
      for (const each of [...this.listeners]) each(frame.action as Notice, payload);
      return;
    }
    const asked = this.waiting.get(frame.id);
    if (asked === undefined) return;
    this.waiting.delete(frame.id);
    clearTimeout(asked.timer);
    if (frame.type === "error") asked.reject(new Refused(payload as unknown as ErrorBody));
    else asked.resolve(payload);
  }
}

function lostWords(): Refused {
  return new Refused({ code: "connection_lost", message: "There is no connection right now." });
}
