// Forms for a new task and a new session. A request keeps its id until it is answered, so pressing
// twice makes one object.

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Connection, Refused } from "../connection";
import { freshId } from "../ids";
import type { ProfileView, SessionView, TaskView } from "../wire";

const NEW = "";

interface Props {
  readonly line: Connection;
  readonly tasks: readonly TaskView[];
  readonly profiles: readonly ProfileView[];
  /** `namespace/name` of the task that stands there first. */
  readonly task?: string;
  readonly onDone: (view: SessionView) => void;
  readonly onClose: () => void;
}

export function CreateDialog(props: Props): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-labelledby="create-title">
      <h2 id="create-title">New session</h2>
      <CreateForm {...props} />
    </dialog>
  );
}

function CreateForm({ line, tasks, profiles, task, onDone, onClose }: Props): VNode {
  const [chosen, choose] = useState(task ?? NEW);
  const [ids, setIds] = useState(() => ({ task: freshId(), session: freshId() }));
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const [free, setFree] = useState<readonly string[]>([]);
  const namespace = chosen === NEW ? null : chosen.slice(0, chosen.indexOf("/"));
  const offered = profiles.filter((each) => namespace === null || each.namespace === namespace);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    setBusy(true);
    setTrouble("");
    try {
      onDone(await create(line, form, chosen, ids));
    } catch (why) {
      setTrouble(why instanceof Refused ? why.message : String(why));
      const named = why instanceof Refused ? why.details["free_executors"] : undefined;
      if (Array.isArray(named)) setFree(named.map(String));
      // An answer that said no made nothing; no answer may have made it.
      if (why instanceof Refused && why.code !== "connection_lost") {
        setIds({ task: ids.task, session: freshId() });
      }
      setBusy(false);
    }
  };
  return (
    <form class="create" onSubmit={(event) => void submit(event as unknown as SubmitEvent)}>
      <label>
        Task
        <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
          <option value={NEW}>A new task</option>
          {tasks.filter((each) => !each.closed).map((each) => (
            <option value={`${each.namespace}/${each.name}`}>{each.title}</option>
          ))}
        </select>
      </label>
      {chosen === NEW && (
        <label>
          Title of the task
          <input name="title" required maxLength={200} autocomplete="off" />
        </label>
      )}
      <label>
        Agent
        <select name="profile" required>
          {offered.map((each) => (
            <option value={`${each.namespace}/${each.name}`}>
              {each.display_name ?? each.name} ({each.namespace})
            </option>
          ))}
        </select>
      </label>
      <label>
        First prompt
        <textarea name="prompt" rows={4} />
      </label>
      <label>
        When the agent is gone
        <select name="policy">
          <option value="Auto">resume by itself</option>
          <option value="OnRequest">resume when somebody asks</option>
          <option value="Never">do not resume</option>
        </select>
      </label>
      <label>
        Executor (empty: what this gateway makes for a session)
        <input name="executor" list="executors" maxLength={63} autocomplete="off" />
        <datalist id="executors">
          {free.map((each) => (
            <option value={each} />
          ))}
        </datalist>
      </label>
      {offered.length === 0 && <p role="alert">There is no agent profile that you may use here.</p>}
      {trouble !== "" && (
        <p role="alert">
          {trouble}
          {free.length > 0 && ` Free: ${free.join(", ")}.`}
        </p>
      )}
      <div class="offers">
        <button type="button" onClick={onClose}>Close</button>
        <button type="submit" class="primary" disabled={busy || offered.length === 0}>
          {busy ? "Creating…" : "Create session"}
        </button>
      </div>
    </form>
  );
}

async function create(
  line: Connection,
  form: FormData,
  chosen: string,
  ids: { task: string; session: string },
): Promise<SessionView> {
  const [namespace, profile] = split(String(form.get("profile") ?? ""));
  const task = chosen === NEW ? await makeTask(line, form, namespace, ids.task) : split(chosen)[1];
  const prompt = String(form.get("prompt") ?? "").trim();
  const executor = String(form.get("executor") ?? "").trim();
  return line.request<SessionView>("session.create", {
    request_id: ids.session,
    namespace,
    task_name: task,
    agent_profile_name: profile,
    prompt: prompt === "" ? null : prompt,
    executor_name: executor === "" ? null : executor,
    resume_policy: String(form.get("policy") ?? "Auto"),
  });
}

async function makeTask(
  line: Connection,
  form: FormData,
  namespace: string,
  id: string,
): Promise<string> {
  const title = String(form.get("title") ?? "").trim();
  const made = await line.request<TaskView>("task.create", { request_id: id, namespace, title });
  return made.name;
}

function split(path: string): [string, string] {
  const at = path.indexOf("/");
  return [path.slice(0, at), path.slice(at + 1)];
}
