// A shell's bytes, each once, and nobody else's keys.

import { describe, expect, test } from "vitest";
import { decode, encode, encodeText } from "../src/bytes";
import type { Connection, NoticeHandler } from "../src/connection";
import { type Screen, Shell } from "../src/shell";

class Line {
  handler: NoticeHandler = () => undefined;
  readonly told: [string, Record<string, unknown>][] = [];
  readonly asked: Record<string, unknown>[] = [];
  answer = { shell_id: "a", instance_id: "i", cursor: 0, end: 0 };

  onNotice(handler: NoticeHandler): () => void {
    this.handler = handler;
    return () => undefined;
  }

  onOpen(handler: () => void): () => void {
    handler();
    return () => undefined;
  }

  async request(_: string, payload: Record<string, unknown>): Promise<unknown> {
    this.asked.push(payload);
    return this.answer;
  }

  tell(action: string, payload: Record<string, unknown>): void {
    this.told.push([action, payload]);
  }
}

function stage() {
  const line = new Line();
  const seen = { text: "", resets: 0, drawn: [] as (() => void)[] };
  const screen: Screen = {
    write: (bytes, drawn) => {
      seen.text += new TextDecoder().decode(bytes);
      seen.drawn.push(drawn);
    },
    note: (words) => {
      seen.text += `[${words}]`;
    },
    reset: () => {
      seen.text = "";
      seen.resets += 1;
    },
    cols: 80,
    rows: 24,
  };
  const shell = new Shell(line as unknown as Connection, "s", screen);
  const output = (cursor: number, text: string, id = "a") =>
    line.handler("shell.output", {
      session_id: "s", task_id: "t", shell_id: id, instance_id: "i", cursor, data: encodeText(text),
    });
  return { line, seen, shell, output };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

describe("output", () => {
  test("is shown once, however it overlaps, and a hole is said", async () => {
    const { seen, shell, output } = stage();
    shell.start();
    output(0, "ear");
    await settled();
    output(0, "early");
    output(3, "ly ");
    output(6, "bird");
    output(20, "late");
    expect(seen.text).toBe("early bird[10 bytes are not kept any more]late");
  });

  test("of another shell is nobody's", async () => {
    const { seen, shell, output } = stage();
    shell.start();
    await settled();
    output(0, "other", "b");
    expect(seen.text).toBe("");
  });
});

test("a new socket goes on where the old one stopped; another shell begins anew", async () => {
  const { line, seen, shell, output } = stage();
  shell.start();
  await settled();
  output(0, "four");
  await shell.attach();
  expect(line.asked[1]).toMatchObject({ shell_id: "a", instance_id: "i", cursor: 4 });
  expect(seen.resets).toBe(0);
  line.answer = { shell_id: "b", instance_id: "j", cursor: 0, end: 0 };
  await shell.attach();
  expect(seen.resets).toBe(1);
  shell.typed("x");
  expect(line.told.at(-1)).toEqual(["shell.input", { session_id: "s", shell_id: "b", data: btoa("x") }]);
});

test("what a terminal answers to a replay is not typed into the shell, a person's keys are", async () => {
  const { line, seen, shell, output } = stage();
  line.answer = { shell_id: "a", instance_id: "i", cursor: 0, end: 3 };
  shell.start();
  await settled();
  output(0, "\x1b[c");
  shell.typed("\x1b[?1;2c");
  expect(line.told).toEqual([]);
  shell.typed("ls");
  expect(line.told).toHaveLength(1);
  for (const drawn of seen.drawn) drawn();
  shell.typed("\x1b[?1;2c");
  expect(line.told).toHaveLength(2);
});

test("bytes go through base64 whole", () => {
  const bytes = Uint8Array.from({ length: 20_000 }, (_, at) => at % 256);
  expect(decode(encode(bytes))).toEqual(bytes);
});
