// The workspace's files: a tree that is read folder by folder, a file as text, and an edit that is
// written only over what was read. Names are whatever bytes an agent made; they are shown, not run.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refused } from "../connection";
import type { Session } from "../session";
import type { Entry, TreePage, WriteAnswer } from "../wire";

interface Content {
  readonly path: string;
  readonly etag: string;
  readonly size: number;
  readonly encoding: "utf-8" | "base64";
  readonly content: string;
  /** Large files come in part, and are not edited here. */
  readonly complete?: boolean;
}

const told = (why: unknown) => (why instanceof Refused ? why.message : String(why));

export function Files({ session }: { session: Session }): VNode {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <div class="files">
      <nav aria-label="Files" class="tree">
        <Folder session={session} path="" current={open} onOpen={setOpen} />
      </nav>
      <div class="file">
        {open === null ? (
          <p class="quiet">Choose a file.</p>
        ) : (
          <File key={open} session={session} path={open} />
        )}
      </div>
    </div>
  );
}

interface FolderProps {
  readonly session: Session;
  readonly path: string;
  readonly current: string | null;
  readonly onOpen: (path: string) => void;
}

function Folder({ session, path, current, onOpen }: FolderProps): VNode {
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [trouble, setTrouble] = useState("");
  const read = async (after: string | null) => {
    try {
      const ask = { session_id: session.id, path, after };
      const page = await session.line.request<TreePage>("file.tree", ask);
      setEntries((before) => (after === null ? page.entries : [...before, ...page.entries]));
      setNext(page.next ?? null);
      setTrouble("");
    } catch (why) {
      setTrouble(told(why));
    }
  };
  useEffect(() => void read(null), [session, path]);
  return (
    <ul>
      {path === "" && (
        <li>
          <button type="button" class="small" onClick={() => void read(null)}>
            Read again
          </button>
        </li>
      )}
      {entries.map((entry) => (
        <Row key={entry.path} session={session} entry={entry} current={current} onOpen={onOpen} />
      ))}
      {next !== null && (
        <li>
          <button type="button" class="small" onClick={() => void read(next)}>
            More
          </button>
        </li>
      )}
      {trouble !== "" && <li role="alert">{trouble}</li>}
      {entries.length === 0 && trouble === "" && <li class="quiet">Nothing here.</li>}
    </ul>
  );
}

interface RowProps extends Omit<FolderProps, "path"> {
  readonly entry: Entry;
}

function Row({ session, entry, current, onOpen }: RowProps): VNode {
  const [unfolded, setUnfolded] = useState(false);
  if (entry.kind === "folder") {
    return (
      <li>
        <button type="button" class="name" aria-expanded={unfolded}
          onClick={() => setUnfolded(!unfolded)}>
          <span aria-hidden="true">{unfolded ? "▾" : "▸"} </span>
          {entry.name}
        </button>
        {unfolded && <Folder session={session} path={entry.path} current={current} onOpen={onOpen} />}
      </li>
    );
  }
  if (entry.kind !== "file") {
    return (
      <li class="quiet">
        {entry.name} ({entry.kind}
        {entry.target ? ` to ${entry.target}` : ""})
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="name" aria-current={current === entry.path}
        onClick={() => onOpen(entry.path)}>
        {entry.name}
      </button>
    </li>
  );
}

function File({ session, path }: { session: Session; path: string }): VNode {
  const [file, setFile] = useState<Content | null>(null);
  const [text, setText] = useState<string | null>(null);
  const [trouble, setTrouble] = useState("");
  const [saved, setSaved] = useState("");
  const read = async () => {
    try {
      const ask = { session_id: session.id, path };
      setFile(await session.line.request<Content>("file.read", ask));
      setText(null);
      setTrouble("");
    } catch (why) {
      setTrouble(told(why));
    }
  };
  useEffect(() => void read(), [path]);
  const save = async () => {
    if (file === null || text === null) return;
    try {
      const ask = { session_id: session.id, path, etag: file.etag, encoding: "utf-8", content: text };
      const answer = await session.line.request<WriteAnswer>("file.write", ask);
      setFile({ ...file, content: text, etag: answer.etag, size: answer.size });
      setText(null);
      setSaved("Saved.");
      setTrouble("");
    } catch (why) {
      const changed = why instanceof Refused && /precondition|changed|conflict/.test(why.code);
      const words = changed ? "It was changed meanwhile. Your text is kept here." : told(why);
      setTrouble(`Not saved. ${words}`);
    }
  };
  return (
    <section aria-label={path}>
      <div class="headline">
        <h3>{path}</h3>
        <span class="offers">
          <button type="button" class="small" onClick={() => void read()}>
            Read again
          </button>
          {file?.encoding === "utf-8" && file.complete !== false && text === null && (
            <button type="button" class="small" onClick={() => (setText(file.content), setSaved(""))}>
              Edit
            </button>
          )}
          {text !== null && (
            <button type="button" class="small primary" onClick={() => void save()}>
              Save
            </button>
          )}
        </span>
      </div>
      <p role="status" class="quiet">{saved}</p>
      {trouble !== "" && <p role="alert">{trouble}</p>}
      {text !== null && (
        <textarea class="editor" aria-label={`Content of ${path}`} value={text} spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)} />
      )}
      {text === null && file !== null && <View file={file} />}
    </section>
  );
}

function View({ file }: { file: Content }): VNode {
  if (file.encoding === "base64") {
    return <p class="quiet">This file is not text. It has {file.size} bytes.</p>;
  }
  const part = file.complete === false;
  return (
    <>
    {part && <p class="quiet">Only the beginning of {file.size} bytes is shown.</p>}
    <pre class="content" tabIndex={0} role="region" aria-label={`Content of ${file.path}`}>
      {file.content}
    </pre>
    </>
  );
}
