// What has changed in the worktree: status and differences, staged and not.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refused } from "../connection";
import type { Session } from "../session";
import type { FileDiff, GitDiff, GitStatus } from "../wire";
import { PatchDiff } from "./Diff";

interface Seen {
  readonly status: GitStatus;
  readonly unstaged: GitDiff;
  readonly staged: GitDiff;
}

async function look(session: Session): Promise<Seen> {
  const ask = { session_id: session.id };
  const line = session.line;
  const [status, unstaged, staged] = await Promise.all([
    line.request<GitStatus>("git.status", ask),
    line.request<GitDiff>("git.diff", ask),
    line.request<GitDiff>("git.diff", { ...ask, staged: true }),
  ]);
  return { status, unstaged, staged };
}

export function Git({ session }: { session: Session }): VNode {
  const [seen, setSeen] = useState<Seen | null>(null);
  const [trouble, setTrouble] = useState("");
  const read = async () => {
    try {
      setSeen(await look(session));
      setTrouble("");
    } catch (why) {
      setTrouble(why instanceof Refused ? why.message : String(why));
    }
  };
  useEffect(() => void read(), [session]);
  return (
    <div class="git">
      <div class="headline">
        <p>{seen === null ? "" : headline(seen.status)}</p>
        <button type="button" class="small" onClick={() => void read()}>
          Read again
        </button>
      </div>
      {trouble !== "" && <p role="alert">{trouble}</p>}
      {seen !== null && <Changes seen={seen} />}
    </div>
  );
}

function headline(status: GitStatus): string {
  const on = status.branch ? `On ${status.branch}` : "On no branch";
  const ahead = status.ahead ? `, ${status.ahead} ahead` : "";
  const behind = status.behind ? `, ${status.behind} behind` : "";
  const paths = status.total === 1 ? "1 path differs" : `${status.total} paths differ`;
  return `${on}${ahead}${behind}. ${paths}.`;
}

function Changes({ seen }: { seen: Seen }): VNode {
  const untracked = seen.status.entries.filter((each) => each.worktree === "untracked");
  return (
    <>
      <Section title="Staged" diff={seen.staged} />
      <Section title="Not staged" diff={seen.unstaged} />
      {untracked.length > 0 && (
        <section>
          <h3>New files</h3>
          <ul>
            {untracked.map((each) => (
              <li key={each.path}>
                <code>{each.path}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Section({ title, diff }: { title: string; diff: GitDiff }): VNode | null {
  if (diff.files.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      {diff.files.map((each) => (
        <OneFile key={each.path} file={each} />
      ))}
      {diff.truncated && <p class="quiet">There is more; {diff.total} files differ.</p>}
    </section>
  );
}

function OneFile({ file }: { file: FileDiff }): VNode {
  const name = file.old_path ? `${file.old_path} → ${file.path}` : file.path;
  const counts = file.binary ? "binary" : `+${file.additions ?? 0} −${file.deletions ?? 0}`;
  return (
    <details open>
      <summary>
        <code>{name}</code> <span class="quiet">{`${file.change.replace("_", " ")} ${counts}`}</span>
      </summary>
      {file.patch ? (
        <PatchDiff path={file.path} patch={file.patch} />
      ) : (
        <p class="quiet">{file.omitted ? `Not shown: ${file.omitted.replace("_", " ")}.` : "No text."}</p>
      )}
    </details>
  );
}
