// Markdown as elements, never as HTML text: the parser's tokens become nodes here, so nothing that
// an agent writes can be markup of the page. Raw HTML is shown as the text it is; images become
// links, since a page must not call a stranger's server because an agent named it.

import MarkdownIt, { type Token } from "markdown-it";
import { createElement, type ComponentChildren, type VNode } from "preact";
import { useMemo } from "preact/hooks";
import { CodeBlock } from "./CodeBlock";

const parser = new MarkdownIt({ html: false, linkify: true, breaks: false });

const SAFE_LINK = /^(https?:|mailto:|#)/i;
const PLAIN = new Set([
  ...["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "em", "strong", "s"],
  ...["table", "thead", "tbody", "tr", "th", "td"],
]);

export function Markdown({ text }: { text: string }): VNode {
  const nodes = useMemo(() => render(parser.parse(text, {})), [text]);
  return <div class="markdown">{nodes}</div>;
}

interface Open {
  readonly tag: string;
  readonly props: Record<string, unknown>;
  readonly children: ComponentChildren[];
}

function render(tokens: readonly Token[]): ComponentChildren[] {
  const root: Open = { tag: "", props: {}, children: [] };
  const stack: Open[] = [root];
  for (const token of tokens) {
    const top = stack[stack.length - 1] as Open;
    if (token.nesting === 1) {
      stack.push({ tag: token.tag, props: properties(token), children: [] });
    } else if (token.nesting === -1) {
      const done = stack.length > 1 ? (stack.pop() as Open) : top;
      const parent = stack[stack.length - 1] as Open;
      parent.children.push(element(done));
    } else {
      top.children.push(...leaf(token));
    }
  }
  return root.children;
}

function leaf(token: Token): ComponentChildren[] {
  switch (token.type) {
    case "inline":
      return render(token.children ?? []);
    case "code_inline":
      return [<code>{token.content}</code>];
    case "code_block":
      return [<CodeBlock text={token.content} language="" />];
    case "fence":
      return [<CodeBlock text={token.content} language={token.info.trim().split(/\s/)[0] ?? ""} />];
    case "hr":
      return [<hr />];
    case "hardbreak":
      return [<br />];
    case "softbreak":
      return ["\n"];
    case "image":
      return [image(token)];
    default:
      return [token.content];
  }
}

function image(token: Token): VNode {
  const source = String(token.attrGet("src") ?? "");
  const words = token.content === "" ? "image" : token.content;
  return <Link href={source}>{`[${words}]`}</Link>;
}

function element(open: Open): ComponentChildren {
  if (open.tag === "a") return <Link href={String(open.props["href"] ?? "")}>{open.children}</Link>;
  if (!PLAIN.has(open.tag)) return open.children;
  if (open.tag === "table") {
    return (
      <div class="wide" tabIndex={0} role="region" aria-label="Table">
        <table>{open.children}</table>
      </div>
    );
  }
  // Headings of a message stand below the page's own.
  const level = /^h([1-6])$/.exec(open.tag);
  const tag = level ? `h${Math.min(6, Number(level[1]) + 2)}` : open.tag;
  return createElement(tag, open.props, ...open.children);
}

function properties(token: Token): Record<string, unknown> {
  if (token.tag === "a") return { href: token.attrGet("href") ?? "" };
  if (token.tag === "ol" && token.attrGet("start") !== null) return { start: token.attrGet("start") };
  return {};
}

function Link({ href, children }: { href: string; children?: ComponentChildren }): VNode {
  if (!SAFE_LINK.test(href)) return <span>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}
