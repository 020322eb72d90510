// A real terminal. It is loaded when it is first opened. xterm.js writes its own style elements, which
// the page's policy allows only with the nonce of this very page.

import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import type { VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Screen, Shell } from "../shell";
import type { Session } from "../session";

let signed = false;

/** Styles made by scripts of this page bear its nonce. */
function signStyles(): void {
  const script = document.querySelector<HTMLScriptElement>("script[nonce]");
  const nonce = script?.nonce ?? "";
  if (signed || nonce === "") return;
  signed = true;
  const make = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    const made = make(name, options);
    if (made instanceof HTMLStyleElement) made.nonce = nonce;
    return made;
  }) as typeof document.createElement;
}

function screenOf(term: Xterm): Screen {
  return {
    write: (bytes, drawn) => term.write(bytes, drawn),
    note: (words) => term.write(`\r\n\x1b[2m[${words}]\x1b[0m\r\n`),
    reset: () => term.reset(),
    get cols() {
      return term.cols;
    },
    get rows() {
      return term.rows;
    },
  };
}

export default function Terminal({ session }: { session: Session }): VNode {
  const place = useRef<HTMLDivElement>(null);
  const { term, fit, shell } = useMemo(() => {
    signStyles();
    const made = new Xterm({
      convertEol: false,
      cursorBlink: false,
      fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
      fontSize: 13,
      scrollback: 5000,
      screenReaderMode: true,
      theme: { background: "#11151c", foreground: "#dfe5ee", cursor: "#dfe5ee" },
    });
    const fitter = new FitAddon();
    made.loadAddon(fitter);
    return { term: made, fit: fitter, shell: new Shell(session.line, session.id, screenOf(made)) };
  }, [session]);
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    term.open(box);
    fit.fit();
    const ends = [
      term.onData((text) => shell.typed(text)),
      term.onBinary((text) => shell.typedBinary(text)),
      term.onResize(({ cols, rows }) => shell.resized(cols, rows)),
    ];
    // Tab and Escape belong to the shell; this way out is told beside it.
    term.attachCustomKeyEventHandler((event) => !leaves(event));
    const watcher = new ResizeObserver(() => fit.fit());
    watcher.observe(box);
    shell.start();
    return () => {
      watcher.disconnect();
      for (const end of ends) end.dispose();
      shell.stop();
      term.dispose();
    };
  }, [shell]);
  const state = shell.state.value;
  return (
    <div class="terminal" onKeyDown={(event) => leaves(event) && leave(event)}>
      {state === "refused" && <p role="alert">{shell.trouble.value}</p>}
      <div class="screen" ref={place} data-state={state} />
      <p class="quiet">
        {state === "opening" && "Opening the shell… "}
        {(state === "ended" || state === "refused") && (
          <button type="button" class="small" onClick={() => void shell.renew()}>
            Open a new shell
          </button>
        )}
        Ctrl+Shift+E leaves the terminal.
      </p>
    </div>
  );
}

function leaves(event: KeyboardEvent): boolean {
  return event.ctrlKey && event.shiftKey && event.code === "KeyE";
}

function leave(event: KeyboardEvent): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("[role=tab][aria-selected=true]")?.focus();
}
