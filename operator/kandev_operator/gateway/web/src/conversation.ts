// What was said, put together from pages of history, events of the journal and words not kept yet.
// Whatever comes twice, late or out of order changes nothing: each event has its place, and a
// message knows the newest one that it has. Pure: it asks nobody and shows nothing.

import { head, points } from "./codepoints";
import type { LiveWords, Message, MessageChange, MessagePage, Missing } from "./wire";

/** One message as shown. `live` are words behind `text` that the journal does not keep yet. */
export interface Said {
  readonly key: string;
  readonly journal: string;
  readonly seq: number;
  readonly lastSeq: number;
  readonly author: string;
  readonly kind: string;
  readonly turn: string | null;
  readonly at: string;
  readonly text: string;
  readonly live: string;
  readonly content: Record<string, unknown> | null;
}

/** Events that are kept nowhere. */
export interface Hole {
  readonly key: string;
  readonly journal: string;
  readonly seq: number;
  readonly from: number;
  readonly to: number;
}

export type Item = Said | Hole;

export function isHole(item: Item): item is Hole {
  return "from" in item;
}

export class Conversation {
  /** Oldest first. A new array whenever something changed. */
  items: readonly Item[] = [];
  /** Where a subscription goes on. */
  cursor: string | null = null;
  /** Give it to `message.list` for what is older. */
  before: string | null = null;
  /** A message was told whose beginning is not here: read the newest page again. */
  torn = false;
  private index = new Map<string, number>();
  /** Live words of messages that have no place yet. */
  private readonly early = new Map<string, LiveWords>();

  /** The newest page, at the beginning and again after a hole in what was heard. */
  newest(page: MessagePage): void {
    const empty = this.items.length === 0;
    for (const message of page.messages ?? []) this.put(ofMessage(message));
    if (empty) this.before = page.before ?? null;
    this.torn = false;
    this.heard(page.cursor);
  }

  /** What is before all that is here. */
  older(page: MessagePage): void {
    const known = this.index;
    const fresh = (page.messages ?? []).map(ofMessage).filter((each) => !known.has(each.key));
    this.items = [...fresh, ...this.items];
    this.before = page.before ?? null;
    this.reindex();
  }

  /** Something that is no message was told at this place: it is not asked for again. */
  heard(cursor: string | null | undefined): void {
    if (cursor && this.isLater(cursor)) this.cursor = cursor;
  }

  change(event: MessageChange): void {
    this.heard(event.cursor);
    const key = keyOf(event.journal_id, event.message_id);
    const at = this.index.get(key);
    const known = at === undefined ? undefined : (this.items[at] as Said);
    if (known !== undefined && known.lastSeq >= event.seq) return;
    if ((event.offset ?? 0) > points(known?.text ?? "")) {
      this.torn = true;
      return;
    }
    this.put(this.changed(known, event, key));
  }

  live(words: LiveWords): void {
    const at = this.liveTarget(words);
    if (at === undefined) {
      this.unplaced(words);
      return;
    }
    const known = this.items[at] as Said;
    const whole = known.text + known.live;
    if (words.offset > points(whole)) return;
    const next = head(whole, words.offset) + words.text;
    if (next.length <= known.text.length) return;
    this.replace(at, { ...known, live: next.slice(known.text.length) });
  }

  missing(gap: Missing): void {
    const hole: Hole = {
      key: `${gap.journal_id}/gap-${gap.from_seq}`,
      journal: gap.journal_id,
      seq: gap.from_seq,
      from: gap.from_seq,
      to: gap.to_seq,
    };
    this.put(hole);
    this.heard(`${gap.journal_id}:${gap.to_seq}`);
  }

  private changed(known: Said | undefined, event: MessageChange, key: string): Said {
    const text = event.text ?? "";
    const kept = known === undefined ? text : head(known.text, event.offset ?? 0) + text;
    const early = known === undefined ? this.early.get(event.message_id) : undefined;
    this.early.delete(event.message_id);
    const shown = known === undefined ? (early?.text ?? "") : known.text + known.live;
    return {
      key,
      journal: event.journal_id,
      seq: known?.seq ?? event.seq,
      lastSeq: event.seq,
      author: event.author,
      kind: event.kind,
      turn: event.turn_id ?? null,
      at: known?.at ?? event.at,
      text: kept,
      live: shown.startsWith(kept) ? shown.slice(kept.length) : "",
      content: event.content ?? known?.content ?? null,
    };
  }

  /** Words of a message without any place yet are shown at the end, and get their place later. */
  private unplaced(words: LiveWords): void {
    const before = this.early.get(words.message_id);
    const whole = before?.text ?? "";
    if (words.offset > points(whole)) return;
    const text = head(whole, words.offset) + words.text;
    if (before === undefined || text.length > whole.length) {
      this.early.set(words.message_id, { ...words, offset: 0, text });
      this.items = [...this.items];
    }
  }

  /** What is being said and has no place yet. */
  get speaking(): readonly Said[] {
    return [...this.early.values()].map((words) => ({
      key: `live/${words.message_id}`,
      journal: "",
      seq: Number.MAX_SAFE_INTEGER,
      lastSeq: 0,
      author: words.author,
      kind: words.kind,
      turn: words.turn_id ?? null,
      at: "",
      text: "",
      live: words.text,
      content: null,
    }));
  }

  /** The turn is over, or the agent is gone: words that were never kept are no one's any more. */
  quiet(): void {
    if (this.early.size === 0) return;
    this.early.clear();
    this.items = [...this.items];
  }

  private liveTarget(words: LiveWords): number | undefined {
    for (let at = this.items.length - 1; at >= 0 && at > this.items.length - 200; at -= 1) {
      const item = this.items[at];
      if (item && !isHole(item) && item.key.endsWith(`/${words.message_id}`)) return at;
    }
    return undefined;
  }

  private put(item: Item): void {
    const at = this.index.get(item.key);
    if (at !== undefined) {
      const known = this.items[at] as Item;
      if (isHole(known) || isHole(item)) return;
      if (known.lastSeq < item.lastSeq) this.replace(at, item);
      return;
    }
    const place = this.placeOf(item);
    this.items = [...this.items.slice(0, place), item, ...this.items.slice(place)];
    if (place === this.items.length - 1) this.index.set(item.key, place);
    else this.reindex();
  }

  /** Behind what came before it in the same journal; else at the end. */
  private placeOf(item: Item): number {
    let place = this.items.length;
    while (place > 0) {
      const previous = this.items[place - 1] as Item;
      if (previous.journal !== item.journal || previous.seq <= item.seq) break;
      place -= 1;
    }
    return place;
  }

  private replace(at: number, item: Item): void {
    const items = [...this.items];
    items[at] = item;
    this.items = items;
  }

  private reindex(): void {
    this.index = new Map(this.items.map((item, at) => [item.key, at]));
  }

  /** Cursors of one journal can be compared; one of another journal is a new beginning. */
  private isLater(cursor: string): boolean {
    if (this.cursor === null) return true;
    const [journal, seq] = split(cursor);
    const [before, had] = split(this.cursor);
    return journal !== before || seq > had;
  }
}

function split(cursor: string): [string, number] {
  const at = cursor.lastIndexOf(":");
  return [cursor.slice(0, at), Number(cursor.slice(at + 1))];
}

function keyOf(journal: string, message: string): string {
  return `${journal}/${message}`;
}

function ofMessage(message: Message): Said {
  return {
    key: keyOf(message.journal_id, message.message_id),
    journal: message.journal_id,
    seq: message.seq,
    lastSeq: message.last_seq,
    author: message.author,
    kind: message.kind,
    turn: message.turn_id ?? null,
    at: message.at,
    text: message.text ?? "",
    live: "",
    content: message.content ?? null,
  };
}
