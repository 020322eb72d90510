// What the agent did with a tool: kind, status, where, and what came of it. Fields are an agent's
// own, so each is looked at before it is shown.

import type { VNode } from "preact";
import { Output } from "./CodeBlock";
import { TextDiff } from "./Diff";
import { Markdown } from "./Markdown";

type Fields = Record<string, unknown>;

const STATUS: Record<string, string> = {
  pending: "pending",
  in_progress: "running",
  completed: "done",
  failed: "failed",
};

export function ToolCall({ content }: { content: Fields }): VNode {
  const kind = words(content["kind"]) || "tool";
  const status = words(content["status"]) || "pending";
  const title = words(content["title"]) || kind;
  const places = list(content["locations"]);
  const parts = list(content["content"]);
  const open = status === "failed" || parts.some((part) => part["type"] === "diff");
  return (
    <details class={`tool ${status}`} open={open}>
      <summary>
        <span class="kind">{kind}</span> <span class="title">{title}</span>{" "}
        <span class={`chip ${status}`}>{STATUS[status] ?? status}</span>
      </summary>
      {places.length > 0 && (
        <ul class="places">
          {places.map((place) => (
            <li>
              <code>
                {words(place["path"])}
                {typeof place["line"] === "number" ? `:${place["line"]}` : ""}
              </code>
            </li>
          ))}
        </ul>
      )}
      {parts.map((part) => (
        <Part part={part} />
      ))}
      {parts.length === 0 && content["rawInput"] !== undefined && (
        <Output text={pretty(content["rawInput"])} label="Input of the tool" />
      )}
    </details>
  );
}

function Part({ part }: { part: Fields }): VNode {
  switch (part["type"]) {
    case "diff":
      return (
        <TextDiff
          path={words(part["path"])}
          before={words(part["oldText"])}
          after={words(part["newText"])}
        />
      );
    case "content": {
      const inner = fields(part["content"]);
      if (inner["type"] === "text") return <Markdown text={words(inner["text"])} />;
      return <Output text={pretty(inner)} label="Content" />;
    }
    case "terminal":
      return <p class="quiet">Terminal {words(part["terminalId"])}</p>;
    default:
      return <Output text={pretty(part)} label="Content" />;
  }
}

export function words(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : {};
}

export function list(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fields) : [];
}

export function pretty(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}
