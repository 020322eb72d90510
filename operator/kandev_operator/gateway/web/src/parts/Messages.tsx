// The conversation, drawn only where it is looked at: ten thousand messages cost as much as thirty.
// It stays at its end while the reader is there, and where the reader is when something is added.

import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";
import type { Session } from "../session";
import { Entry } from "./Message";

const NEAR_TOP_PX = 600;
const GUESS_PX = 90;

function useVirtualizer(items: readonly { key: string }[], box: { current: HTMLElement | null }) {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const options = {
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => GUESS_PX,
    getItemKey: (index: number) => items[index]?.key ?? index,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    overscan: 8,
    gap: 12,
    paddingStart: 12,
    paddingEnd: 12,
    anchorTo: "end" as const,
    followOnAppend: true,
    scrollEndThreshold: 80,
    onChange: () => redraw(0),
  };
  const list = useMemo(() => new Virtualizer<HTMLElement, HTMLElement>(options), []);
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  return list;
}

export function Messages({ session }: { session: Session }): VNode {
  const tick = session.said.value;
  const items = useMemo(
    () => [...session.talk.items, ...session.talk.speaking],
    [session, tick],
  );
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer(items, box);
  useEffect(() => list.scrollToEnd(), [session]);
  const onScroll = () => {
    if (box.current !== null && box.current.scrollTop < NEAR_TOP_PX) void session.older();
  };
  // A short page of history may not fill the window: there is nothing to scroll, so ask.
  useEffect(() => {
    const at = box.current;
    if (at !== null && at.scrollHeight <= at.clientHeight) void session.older();
  }, [tick]);
  return (
    <div class="scroller" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off"
      aria-label="Conversation">
      {session.talk.before !== null && (
        <p class="quiet older">
          {session.loadingOlder.value ? "Reading what is older…" : "There is more above."}
        </p>
      )}
      {items.length === 0 && <p class="quiet empty">Nothing was said yet.</p>}
      <div class="canvas" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((row) => {
          const item = items[row.index];
          return item === undefined ? null : (
            <div
              class="row"
              key={item.key}
              data-index={row.index}
              style={{ transform: `translateY(${row.start}px)` }}
              ref={list.measureElement}
            >
              <Entry item={item} />
            </div>
          );
        })}
      </div>
    </div>
  );
}
