// The socket's life: answers, losses, and coming back without a stampede.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { reconnectDelay } from "../src/backoff";
import { Connection, Refused } from "../src/connection";

class FakeSocket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event?: { code: number }) => void) | null = null;
  readonly sent: { id: string; action: string; payload: unknown }[] = [];
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.closed = true;
  }

  answer(id: string, payload: object, type = "response"): void {
    this.onmessage?.({ data: JSON.stringify({ id, type, action: "x", payload }) });
  }
}

let sockets: FakeSocket[];
let suspected: number;

function connection(dice = 0.5): Connection {
  return new Connection("ws://here/ws", {
    open: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    dice: () => dice,
    suspect: () => {
      suspected += 1;
    },
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  suspected = 0;
});
afterEach(() => vi.useRealTimers());

test("an answer finds its question, a refusal says why", async () => {
  const line = connection();
  line.start();
  sockets[0]!.onopen!();
  const one = line.request("task.list", {});
  const two = line.request("profile.list", {});
  const [first, second] = sockets[0]!.sent;
  sockets[0]!.answer(second!.id, { code: "forbidden", message: "No.", details: { verb: "list" } }, "error");
  sockets[0]!.answer(first!.id, { tasks: [] });
  await expect(one).resolves.toEqual({ tasks: [] });
  await expect(two).rejects.toMatchObject({ code: "forbidden", message: "No." });
});

test("a lost socket is replaced, its questions are refused, and listeners begin anew", async () => {
  const line = connection();
  let opened = 0;
  line.onOpen(() => {
    opened += 1;
  });
  line.start();
  sockets[0]!.onopen!();
  const asked = line.request("task.list", {});
  const refused = expect(asked).rejects.toBeInstanceOf(Refused);
  sockets[0]!.onclose!();
  await refused;
  expect(line.link.value).toBe("waiting");
  vi.advanceTimersByTime(10_000);
  sockets[1]!.onopen!();
  expect(opened).toBe(2);
});

test("a gateway that goes away is left at once", () => {
  const line = connection();
  line.start();
  sockets[0]!.onopen!();
  sockets[0]!.onmessage!({
    data: JSON.stringify({ id: "n", type: "notification", action: "gateway.going_away", payload: {} }),
  });
  expect(line.link.value).toBe("waiting");
  expect(sockets[0]!.closed).toBe(true);
});

test("a socket that does not answer its ping is given up", async () => {
  const line = connection();
  line.start();
  sockets[0]!.onopen!();
  await vi.advanceTimersByTimeAsync(31_000);
  expect(sockets.length).toBeGreaterThan(1);
});

test("a machine that wakes up tries at once", () => {
  const line = connection();
  line.start();
  sockets[0]!.onclose!();
  expect(sockets).toHaveLength(1);
  line.wake();
  expect(sockets).toHaveLength(2);
});

test("several tries in vain ask whether the login is over", () => {
  const line = connection();
  line.start();
  for (let round = 0; round < 3; round += 1) {
    sockets[round]!.onclose!();
    vi.advanceTimersByTime(10_000);
  }
  expect(suspected).toBe(1);
});

test("a socket that was closed since the login is over asks at once", () => {
  const line = connection();
  line.start();
  sockets[0]!.onopen!();
  sockets[0]!.onclose!({ code: 4401 });
  expect(suspected).toBe(1);
});

test("tries are spread, grow and are bounded", () => {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const soonest = reconnectDelay(attempt, 0);
    const latest = reconnectDelay(attempt, 0.999);
    expect(latest).toBeLessThanOrEqual(5_000);
    expect(latest).toBeGreaterThan(soonest * 1.9);
  }
  expect(reconnectDelay(4, 0.5)).toBeGreaterThan(reconnectDelay(0, 0.5));
});
