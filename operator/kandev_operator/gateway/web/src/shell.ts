// One shell as this page sees it: which bytes it has, and what to ask for when the socket is new.
// A shell goes on in the workspace when nobody watches; the page begins where it stopped. It knows
// bytes and positions, and leaves drawing to whoever gives it a screen.

import { signal } from "@preact/signals";
import { decode, encodeBinary, encodeText } from "./bytes";
import { type Connection, Refused } from "./connection";
import type { ShellExit, ShellOutput } from "./wire";

interface Attached {
  readonly shell_id: string;
  readonly instance_id: string;
  readonly cursor: number;
  readonly end?: number | null;
}

/** The line to agentctl broke, not the shell: come again with the cursor that is had. */
const AGAIN_MS = 1_000;

export interface Screen {
  write(bytes: Uint8Array, drawn: () => void): void;
  note(words: string): void;
  reset(): void;
  readonly cols: number;
  readonly rows: number;
}

/** What a terminal answers by itself when a program asks it. */
const ANSWERS = /^(\x1b\[[?>=]?[\d;]*[cRnuy]|\x1b\[[\d;]*t|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\)+$/;

export class Shell {
  readonly state = signal<"opening" | "open" | "ended" | "refused">("opening");
  readonly trouble = signal("");
  private attached: Attached | null = null;
  private had = 0;
  /** Bytes up to here are a replay: what they ask the terminal was answered long ago. */
  private replayEnd = 0;
  private drawn = 0;
  private early: ShellOutput[] = [];
  private ends: (() => void)[] = [];
  private again: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly line: Connection,
    private readonly session: string,
    private readonly screen: Screen,
  ) {}

  start(): void {
    this.ends = [
      this.line.onNotice((action, payload) => {
        if (payload["session_id"] !== this.session) return;
        if (action === "shell.output") this.output(payload as unknown as ShellOutput);
        if (action === "shell.exit") this.exit(payload as unknown as ShellExit);
      }),
      this.line.onOpen(() => void this.attach()),
    ];
  }

  stop(): void {
    for (const end of this.ends) end();
    clearTimeout(this.again);
    const shell = this.attached?.shell_id;
    if (shell) this.line.tell("shell.unsubscribe", { session_id: this.session, shell_id: shell });
  }

  async attach(): Promise<void> {
    clearTimeout(this.again);
    const { cols, rows } = this.screen;
    const known = this.attached;
    const from = known && {
      instance_id: known.instance_id,
      shell_id: known.shell_id,
      cursor: this.had,
    };
    this.early = [];
    this.state.value = "opening";
    try {
      const ask = { session_id: this.session, name: "main", cols, rows, ...from };
      this.begin(await this.line.request<Attached>("shell.subscribe", ask));
    } catch (why) {
      if (!(why instanceof Refused)) throw why;
      if (why.code === "connection_lost") return;
      this.trouble.value = why.message;
      this.state.value = "refused";
    }
  }

  /** A shell that ended: the same name makes a new one. */
  async renew(): Promise<void> {
    this.attached = null;
    this.had = 0;
    this.drawn = 0;
    this.screen.reset();
    await this.attach();
  }

  typed(text: string): void {
    const replaying = this.drawn < this.replayEnd;
    if (replaying && ANSWERS.test(text)) return;
    this.send(encodeText(text));
  }

  typedBinary(text: string): void {
    this.send(encodeBinary(text));
  }

  resized(cols: number, rows: number): void {
    const shell = this.attached?.shell_id;
    if (shell === undefined || this.state.value !== "open") return;
    this.line.tell("shell.resize", { session_id: this.session, shell_id: shell, cols, rows });
  }

  private send(data: string): void {
    const shell = this.attached?.shell_id;
    if (shell === undefined || this.state.value !== "open") return;
    this.line.tell("shell.input", { session_id: this.session, shell_id: shell, data });
  }

  private begin(answer: Attached): void {
    const before = this.attached;
    if (before !== null && before.shell_id !== answer.shell_id) this.screen.reset();
    if (before === null || before.shell_id !== answer.shell_id) {
      this.had = answer.cursor;
      this.drawn = answer.cursor;
    }
    this.attached = answer;
    this.replayEnd = answer.end ?? answer.cursor;
    this.state.value = "open";
    this.trouble.value = "";
    const early = this.early;
    this.early = [];
    for (const each of early) this.output(each);
  }

  private output(told: ShellOutput): void {
    if (this.state.value === "opening") {
      this.early.push(told);
      return;
    }
    if (told.shell_id !== this.attached?.shell_id) return;
    let bytes = decode(told.data);
    const end = told.cursor + bytes.length;
    if (end <= this.had) return;
    if (told.cursor > this.had) {
      this.screen.note(`${told.cursor - this.had} bytes are not kept any more`);
    } else {
      bytes = bytes.subarray(this.had - told.cursor);
    }
    this.had = end;
    this.screen.write(bytes, () => {
      this.drawn = Math.max(this.drawn, end);
    });
  }

  private exit(told: ShellExit): void {
    if (told.shell_id !== this.attached?.shell_id) return;
    if (told.reason === "lost") {
      this.state.value = "opening";
      this.again = setTimeout(() => void this.attach(), AGAIN_MS);
      return;
    }
    const how = told.signal ?? (told.code == null ? told.reason : `exit code ${told.code}`);
    this.screen.note(`The shell has ended: ${how}`);
    this.state.value = "ended";
  }
}
