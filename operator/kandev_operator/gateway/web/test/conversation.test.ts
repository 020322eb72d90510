// Pages, events and live words in every order: nothing missing, nothing twice.

import { describe, expect, test } from "vitest";
import { points, unitIndex } from "../src/codepoints";
import { Conversation, isHole, type Said } from "../src/conversation";
import type { LiveWords, Message, MessageChange } from "../src/wire";

const place = { session_id: "s", task_id: "t" };

function change(seq: number, id: string, text: string, offset = 0, journal = "j1"): MessageChange {
  const at = "2026-12-01T10:00:00Z";
  const cursor = `${journal}:${seq}`;
  return { ...place, cursor, message_id: id, journal_id: journal, seq, author: "agent", kind: "text", at, offset, text };
}

function live(id: string, offset: number, text: string): LiveWords {
  return { ...place, message_id: id, author: "agent", kind: "text", offset, text };
}

function kept(seq: number, id: string, text: string, last = seq): Message {
  const at = "2026-12-01T10:00:00Z";
  return { message_id: id, journal_id: "j1", seq, last_seq: last, author: "agent", kind: "text", at, text };
}

function told(talk: Conversation): string[] {
  return [...talk.items, ...talk.speaking].map((item) =>
    isHole(item) ? `gap ${item.from}-${item.to}` : (item as Said).text + (item as Said).live,
  );
}

describe("events", () => {
  test("are appended once, however often they come", () => {
    const talk = new Conversation();
    for (let round = 0; round < 3; round += 1) {
      talk.change(change(1, "a", "one "));
      talk.change(change(2, "a", "two", 4));
      talk.change(change(3, "b", "three"));
    }
    expect(told(talk)).toEqual(["one two", "three"]);
    expect(talk.cursor).toBe("j1:3");
  });

  test("that overlap a page of history add only what it lacks", () => {
    const talk = new Conversation();
    talk.newest({ session_id: "s", messages: [kept(1, "a", "one two", 2)], cursor: "j1:2" });
    talk.change(change(2, "a", "two", 4));
    talk.change(change(3, "a", " three", 7));
    expect(told(talk)).toEqual(["one two three"]);
  });

  test("of a message whose beginning was missed ask for the page again", () => {
    const talk = new Conversation();
    talk.change(change(5, "a", "tail", 100));
    expect(talk.torn).toBe(true);
    expect(told(talk)).toEqual([]);
    talk.newest({ session_id: "s", messages: [kept(4, "a", "whole tail", 5)], cursor: "j1:5" });
    expect(talk.torn).toBe(false);
    expect(told(talk)).toEqual(["whole tail"]);
  });

  test("whose middle was missed ask for the page again", () => {
    const talk = new Conversation();
    talk.change(change(1, "a", "one"));
    talk.change(change(3, "a", "three", 8));
    expect(talk.torn).toBe(true);
    expect(told(talk)).toEqual(["one"]);
  });

  test("with content replace what was there", () => {
    const talk = new Conversation();
    const call = { ...change(1, "c", ""), kind: "tool_call", content: { status: "pending" } };
    talk.change(call);
    talk.change({ ...call, seq: 2, cursor: "j1:2", content: { status: "completed" } });
    talk.change(call);
    expect((talk.items[0] as Said).content).toEqual({ status: "completed" });
  });

  test("of another journal go on behind it", () => {
    const talk = new Conversation();
    talk.change(change(9, "a", "old"));
    talk.change(change(1, "a", "new", 0, "j2"));
    expect(told(talk)).toEqual(["old", "new"]);
    expect(talk.cursor).toBe("j2:1");
  });
});

test("places of turns and permissions move the cursor, and never back", () => {
  const talk = new Conversation();
  talk.change(change(3, "a", "one"));
  talk.heard("j1:5");
  talk.heard("j1:4");
  talk.heard(null);
  expect(talk.cursor).toBe("j1:5");
});

describe("live words", () => {
  test("are shown at once and replaced by kept ones", () => {
    const talk = new Conversation();
    talk.live(live("a", 0, "Hel"));
    talk.live(live("a", 3, "lo"));
    expect(told(talk)).toEqual(["Hello"]);
    talk.change(change(1, "a", "Hello"));
    expect(told(talk)).toEqual(["Hello"]);
    talk.live(live("a", 5, " you"));
    expect(told(talk)).toEqual(["Hello you"]);
    talk.change(change(2, "a", " you there", 5));
    expect(told(talk)).toEqual(["Hello you there"]);
    expect(talk.speaking).toEqual([]);
  });

  test("that come late or with a hole before them change nothing", () => {
    const talk = new Conversation();
    talk.change(change(1, "a", "Hello you"));
    talk.live(live("a", 0, "Hello"));
    talk.live(live("a", 50, "far away"));
    expect(told(talk)).toEqual(["Hello you"]);
  });

  test("count code points, as the wire does", () => {
    const talk = new Conversation();
    talk.live(live("a", 0, "🙂🙂"));
    talk.live(live("a", 2, "!"));
    expect(told(talk)).toEqual(["🙂🙂!"]);
    talk.change(change(1, "a", "🙂🙂!"));
    talk.change(change(2, "a", "?", 3));
    expect(told(talk)).toEqual(["🙂🙂!?"]);
    expect(points("a🙂b")).toBe(3);
    expect(unitIndex("a🙂b", 2)).toBe(3);
  });

  test("that were never kept go when the turn is over", () => {
    const talk = new Conversation();
    talk.live(live("a", 0, "lost"));
    talk.quiet();
    expect(told(talk)).toEqual([]);
  });
});

describe("history", () => {
  test("older pages go before what is here, without doubles", () => {
    const talk = new Conversation();
    talk.newest({ session_id: "s", messages: [kept(3, "c", "three")], before: "3", cursor: "j1:3" });
    talk.older({ session_id: "s", messages: [kept(1, "a", "one"), kept(2, "b", "two"), kept(3, "c", "x")] });
    expect(told(talk)).toEqual(["one", "two", "three"]);
    expect(talk.before).toBeNull();
    talk.change(change(4, "b", "!", 3));
    expect(told(talk)).toEqual(["one", "two!", "three"]);
  });

  test("what came live while the history was late is put behind it", () => {
    const talk = new Conversation();
    talk.change(change(7, "z", "live"));
    talk.newest({ session_id: "s", messages: [kept(1, "a", "one"), kept(7, "z", "live")], cursor: "j1:7" });
    expect(told(talk)).toEqual(["one", "live"]);
  });

  test("a gap stands where it is, once, and moves the cursor", () => {
    const talk = new Conversation();
    talk.change(change(1, "a", "one"));
    for (let round = 0; round < 2; round += 1) {
      talk.missing({ ...place, journal_id: "j1", from_seq: 2, to_seq: 9 });
    }
    talk.change(change(10, "b", "ten"));
    expect(told(talk)).toEqual(["one", "gap 2-9", "ten"]);
    expect(talk.cursor).toBe("j1:10");
  });

  test("every interleaving of a page and events ends alike", () => {
    const events = [change(1, "a", "x"), change(2, "a", "y", 1), change(3, "b", "z")];
    for (let cut = 0; cut <= events.length; cut += 1) {
      const talk = new Conversation();
      for (const each of events.slice(0, cut)) talk.change(each);
      talk.newest({ session_id: "s", messages: [kept(1, "a", "xy", 2), kept(3, "b", "z")], cursor: "j1:3" });
      for (const each of events) talk.change(each);
      expect(told(talk)).toEqual(["xy", "z"]);
    }
  });
});
