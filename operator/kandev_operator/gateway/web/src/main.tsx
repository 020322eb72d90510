// Where the page comes to life: what the server rendered is taken over, and then followed.

import "./style.css";
import { render } from "preact";
import { Connection } from "./connection";
import { App, type FirstData } from "./parts/App";

function firstData(): FirstData {
  const text = document.getElementById("data")?.textContent ?? "";
  return text === "" ? {} : (JSON.parse(text) as FirstData);
}

/** A gateway that lets nobody in any more sends to its login; one that is away does not answer. */
async function suspect(): Promise<void> {
  try {
    const answer = await fetch(location.pathname, { method: "HEAD", redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.status === 401) location.reload();
  } catch {
    // Not reachable: the next try to connect will tell.
  }
}

function begin(): void {
  const root = document.getElementById("app");
  if (root === null) return;
  const address = new URL("/ws", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const line = new Connection(address.href, {
    open: (url) => new WebSocket(url),
    dice: Math.random,
    suspect: () => void suspect(),
  });
  root.replaceChildren();
  render(<App line={line} first={firstData()} />, root);
  line.start();
  addEventListener("online", () => line.wake());
  addEventListener("pageshow", () => line.wake());
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") line.wake();
  });
}

begin();
