// The decision table, row by row.

import { describe, expect, test } from "vitest";
import { CANNOT_RESUME, decide, NOTHING_TO_RESUME, promptable, reason } from "../src/resumption";
import type { SessionView } from "../src/wire";

function view(fields: Partial<SessionView> = {}): SessionView {
  return {
    session_id: "s-1",
    task_id: "t-1",
    version: 1,
    namespace: "demo",
    name: "one",
    task_name: "task",
    agent_profile_name: "agent",
    operating_mode: "Running",
    state: "WAITING_FOR_INPUT",
    executor_status: "ready",
    is_agent_running: true,
    is_resumable: true,
    needs_resume: false,
    resume_policy: "Auto",
    created_at: "2026-12-01T10:00:00Z",
    ...fields,
  };
}

const GONE = { is_agent_running: false, resume_reason: "agent_not_running" };

describe("executor", () => {
  test("starting: a spinner, panels off, no banner", () => {
    const seen = decide(view({ executor_status: "starting", is_agent_running: null }), false);
    expect(seen).toMatchObject({ panels: false, banner: null });
    expect(seen.waiting).not.toBeNull();
  });

  test.each(["RUNNING", "WAITING_FOR_INPUT", "STARTING", "ERROR", "COMPLETED"])(
    "ready: panels on, whatever the agent does (%s)",
    (state) => {
      for (const running of [true, false, null, undefined]) {
        expect(decide(view({ state, is_agent_running: running }), false).panels).toBe(true);
      }
    },
  );

  test("stopped: resume at once, no spinner", () => {
    const seen = decide(view({ executor_status: "stopped", ...GONE }), false);
    expect(seen).toMatchObject({ panels: false, waiting: null });
    expect(seen.banner?.offers).toEqual(["resume"]);
  });

  test("error: the reason and a retry", () => {
    const error_message = "image_pull_failed: The image does not exist.";
    const seen = decide(
      view({ executor_status: "error", state: "ERROR", is_agent_running: null, error_message }),
      false,
    );
    expect(seen).toMatchObject({ panels: false, waiting: null });
    expect(seen.banner).toEqual({
      tone: "error",
      text: "The image does not exist.",
      offers: ["retry"],
    });
  });

  test("none yet: something is waited for", () => {
    const seen = decide(
      view({ executor_status: null, state: "CREATED", is_agent_running: null }),
      false,
    );
    expect(seen.waiting).not.toBeNull();
    expect(seen.panels).toBe(false);
  });
});

describe("agent", () => {
  test.each([true, false, null, undefined])("running: no banner, resumable %s", (is_resumable) => {
    for (const executor_status of ["starting", "ready", "error", "stopped", null]) {
      const seen = decide(view({ executor_status, is_resumable, needs_resume: true }), true);
      expect(seen).toMatchObject({ banner: null, waiting: null, autoResume: false });
    }
  });

  test("needs resume and can: resume", () => {
    const seen = decide(view({ ...GONE, needs_resume: true }), false);
    expect(seen.banner?.offers).toEqual(["resume"]);
    expect(seen.panels).toBe(true);
    expect(seen.autoResume).toBe(false);
  });

  test("the same by itself: only if the person chose so, and the policy leaves it to persons", () => {
    const waiting = view({ ...GONE, needs_resume: true, resume_policy: "OnRequest" });
    expect(decide(waiting, true).autoResume).toBe(true);
    expect(decide(waiting, false).autoResume).toBe(false);
    for (const resume_policy of ["Auto", "Never"]) {
      expect(decide({ ...waiting, resume_policy }, true).autoResume).toBe(false);
    }
  });

  test("cannot resume: says so, and offers a new session", () => {
    const seen = decide(
      view({ state: "ERROR", is_agent_running: false, is_resumable: false, resume_reason: "not_resumable" }),
      true,
    );
    expect(seen.banner).toMatchObject({ text: CANNOT_RESUME, offers: ["create"] });
    expect(seen).toMatchObject({ panels: true, autoResume: false });
  });

  test("nothing to resume: says so, and offers a new session", () => {
    const seen = decide(
      view({ state: "ERROR", is_agent_running: false, is_resumable: false, resume_reason: "missing_resume_token" }),
      false,
    );
    expect(seen.banner).toMatchObject({ text: NOTHING_TO_RESUME, offers: ["create"] });
    expect(seen.panels).toBe(true);
  });

  test.each(["resume_failed", "resume_timed_out", "session_not_found", "max_attempts"])(
    "resume failed (%s): the error, panels on, three ways out",
    (resume_reason) => {
      const seen = decide(
        view({
          state: "ERROR",
          is_agent_running: false,
          needs_resume: true,
          resume_reason,
          error_message: `${resume_reason}: The agent said no.`,
        }),
        true,
      );
      expect(seen.banner).toEqual({
        tone: "error",
        text: "The agent said no.",
        offers: ["try_again", "fresh_start", "create"],
      });
      expect(seen).toMatchObject({ panels: true, autoResume: false });
    },
  );

  test("died in a turn, not yet asked back: resume", () => {
    const seen = decide(
      view({ state: "ERROR", is_agent_running: false, needs_resume: true, resume_reason: "agent_exited" }),
      false,
    );
    expect(seen.banner?.offers).toEqual(["resume"]);
  });
});

describe("what is not known", () => {
  test("an agent of which nothing is known gets no banner", () => {
    for (const unknown of [null, undefined]) {
      const seen = decide(view({ is_agent_running: unknown, needs_resume: true }), true);
      expect(seen).toMatchObject({ banner: null, autoResume: false });
    }
  });

  test("a conversation of which nothing is known is neither offered nor denied", () => {
    for (const unknown of [null, undefined]) {
      const seen = decide(
        view({ ...GONE, is_resumable: unknown, needs_resume: unknown, resume_reason: "not_resumable" }),
        true,
      );
      expect(seen).toMatchObject({ banner: null, autoResume: false, panels: true });
    }
  });
});

describe("modes", () => {
  test("suspended: resume, whatever the executor", () => {
    for (const executor_status of ["stopped", "ready", null]) {
      const seen = decide(
        view({ operating_mode: "Suspended", executor_status, is_agent_running: false }),
        true,
      );
      expect(seen.banner?.offers).toEqual(["resume"]);
    }
  });

  test("finished: readable, and a new session is offered", () => {
    const seen = decide(
      view({ operating_mode: "Finished", state: "COMPLETED", executor_status: null, is_agent_running: false }),
      false,
    );
    expect(seen.banner?.offers).toEqual(["create"]);
  });

  test("workspace only: no banner about an agent that is not wanted", () => {
    const seen = decide(view({ operating_mode: "WorkspaceOnly", ...GONE }), false);
    expect(seen).toMatchObject({ banner: null, panels: true });
  });

  test("being deleted: nothing is offered", () => {
    const seen = decide(view({ deleting: true }), true);
    expect(seen.banner?.offers).toEqual([]);
    expect(seen.panels).toBe(false);
  });
});

test("a reason is told in plain words", () => {
  expect(reason(view({ error_message: "oom_killed: Out of memory: twice." }), "x")).toBe(
    "Out of memory: twice.",
  );
  expect(reason(view({ resume_reason: "agent_not_running" }), "x")).toMatch(/agent is gone/);
  expect(reason(view({ resume_reason: "a_word_of_tomorrow" }), "x")).toBe("a word of tomorrow.");
  expect(reason(view({}), "x")).toBe("x");
});

test("words are sent only to an agent that surely runs", () => {
  expect(promptable(view({}))).toBe(true);
  for (const running of [false, null, undefined]) {
    expect(promptable(view({ is_agent_running: running }))).toBe(false);
  }
  expect(promptable(view({ state: "STARTING" }))).toBe(false);
});
