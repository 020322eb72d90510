// When to connect again: soon at first, later and later, and never all pages at the same moment.

const FIRST_MS = 250;
const LONGEST_MS = 5_000;

/** Milliseconds to wait before try number `attempt` (from 0); `dice` is in [0, 1). */
export function reconnectDelay(attempt: number, dice: number): number {
  const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
  return ceiling / 2 + (ceiling / 2) * dice;
}
