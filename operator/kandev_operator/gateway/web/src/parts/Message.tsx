// One entry of a conversation, by its kind. A kind that is not known is shown as it came.

import type { VNode } from "preact";
import { memo } from "../memo";
import { type Item, isHole, type Said } from "../conversation";
import { Output } from "./CodeBlock";
import { Markdown } from "./Markdown";
import { fields, list, pretty, ToolCall, words } from "./ToolCall";

const AUTHORS: Record<string, string> = { user: "You", agent: "Agent", agentctl: "agentctl" };

export const Entry = memo(function Entry({ item }: { item: Item }): VNode {
  if (isHole(item)) return <Gap from={item.from} to={item.to} />;
  const author = AUTHORS[item.author] ?? item.author;
  return (
    <article class={`message by-${item.author} of-${item.kind}`} aria-label={`${author}, ${item.kind}`}>
      <header>
        <span class="author">{author}</span>
        {item.at !== "" && <time dateTime={item.at}>{clock(item.at)}</time>}
      </header>
      <Body said={item} />
    </article>
  );
});

function Body({ said }: { said: Said }): VNode | null {
  const content = said.content ?? {};
  const text = said.text + said.live;
  switch (said.kind) {
    case "text":
      return said.author === "user" ? <p class="typed">{text}</p> : <Markdown text={text} />;
    case "thought":
      return (
        <details class="thought">
          <summary>Thought</summary>
          <Markdown text={text} />
        </details>
      );
    case "tool_call":
      return <ToolCall content={content} />;
    case "plan":
      return <Plan entries={list(content["entries"])} />;
    case "content":
    case "attachments":
      return <Attachments blocks={said.kind === "content" ? [content] : list(content["blocks"])} />;
    case "usage":
      return <Usage content={content} />;
    case "terminal":
      return <Terminal content={content} />;
    case "fault":
      return <p class="faulty">{text}</p>;
    default:
      return <Output text={text || pretty(content)} label={said.kind} />;
  }
}

function Gap({ from, to }: { from: number; to: number }): VNode {
  const count = to - from + 1;
  return (
    <p class="gap" role="note">
      {count === 1 ? "One event is" : `${count} events are`} missing here: nobody kept them.
    </p>
  );
}

const DONE: Record<string, string> = { completed: "☑", in_progress: "▶", pending: "☐" };

function Plan({ entries }: { entries: Record<string, unknown>[] }): VNode {
  return (
    <section class="plan" aria-label="Plan">
      <h3>Plan</h3>
      <ul>
        {entries.map((entry) => {
          const status = words(entry["status"]) || "pending";
          return (
            <li class={status}>
              <span aria-hidden="true">{DONE[status] ?? "☐"}</span>{" "}
              <span class="hidden">{status.replace("_", " ")}: </span>
              {words(entry["content"])}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Attachments({ blocks }: { blocks: Record<string, unknown>[] }): VNode {
  return (
    <ul class="attachments">
      {blocks.map((block) => {
        const name = words(block["name"]) || words(block["title"]) || words(block["uri"]);
        const kind = words(block["mimeType"]) || words(block["type"]) || "attachment";
        return <li>{name === "" ? kind : `${name} (${kind})`}</li>;
      })}
    </ul>
  );
}

function Usage({ content }: { content: Record<string, unknown> }): VNode {
  const used = content["used"];
  const size = content["size"];
  if (typeof used !== "number" || typeof size !== "number" || size <= 0) {
    return <p class="quiet">Usage: {pretty(content)}</p>;
  }
  const share = Math.round((100 * used) / size);
  return <p class="quiet">{`The context is ${share} % full.`}</p>;
}

function Terminal({ content }: { content: Record<string, unknown> }): VNode {
  const code = content["exit_code"];
  const ended = words(content["signal"]) || (typeof code === "number" ? `exit code ${code}` : "");
  const told = fields(content["output"]);
  const output = words(content["output"]) || words(told["text"]);
  return (
    <details class="tool" open>
      <summary>
        <span class="kind">terminal</span> <span class="title">{ended}</span>
      </summary>
      <Output text={output} label="Output of a command" />
    </details>
  );
}

export function clock(at: string): string {
  const when = new Date(at);
  if (Number.isNaN(when.getTime())) return "";
  const today = when.toDateString() === new Date().toDateString();
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return today ? time : `${when.toLocaleDateString()} ${time}`;
}
