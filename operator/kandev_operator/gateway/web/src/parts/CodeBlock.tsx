// A block of code or output, as text, that can be scrolled by keyboard and copied.

import { useState } from "preact/hooks";
import type { VNode } from "preact";

export function CodeBlock({ text, language }: { text: string; language: string }): VNode {
  const [told, tell] = useState("Copy");
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => tell("Copied"),
      () => tell("Not allowed"),
    );
  };
  return (
    <div class="code">
      <div class="codehead">
        <span>{language}</span>
        <button type="button" class="small" onClick={copy} aria-label={`${told} code`}>
          {told}
        </button>
      </div>
      <pre tabIndex={0} role="region" aria-label={language ? `Code, ${language}` : "Code"}>
        <code>{text}</code>
      </pre>
    </div>
  );
}

/** What a program wrote: colours and cursor moves are left out, the rest is text. */
export function Output({ text, label }: { text: string; label: string }): VNode {
  return (
    <pre class="output" tabIndex={0} role="region" aria-label={label}>
      {plain(text)}
    </pre>
  );
}

const ESCAPES = /\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f]/g;

export function plain(text: string): string {
  return text.replace(ESCAPES, "").replaceAll("\r\n", "\n").replace(CONTROLS, "");
}
