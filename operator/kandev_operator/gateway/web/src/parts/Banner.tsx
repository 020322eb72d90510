// What stands above the prompt when something is waited for, or somebody is needed.

import type { VNode } from "preact";
import type { Decision, Offer } from "../resumption";

const LABELS: Record<Offer, string> = {
  resume: "Resume session",
  try_again: "Try again",
  retry: "Retry",
  fresh_start: "Start fresh",
  create: "Create new session to continue messaging",
};

interface Props {
  readonly decision: Decision;
  readonly busy: boolean;
  readonly onOffer: (offer: Offer) => void;
}

export function BannerArea({ decision, busy, onOffer }: Props): VNode | null {
  if (decision.waiting !== null) {
    return (
      <div class="banner info" role="status">
        <span class="spinner" aria-hidden="true" />
        <span>{decision.waiting}</span>
      </div>
    );
  }
  if (decision.banner === null) return null;
  const { tone, text, offers } = decision.banner;
  return (
    <div class={`banner ${tone}`} role={tone === "error" ? "alert" : "status"} data-testid="banner">
      <span class="why">{text}</span>
      <span class="offers">
        {offers.map((offer) => (
          <button type="button" key={offer} disabled={busy} onClick={() => onOffer(offer)}>
            {LABELS[offer]}
          </button>
        ))}
      </span>
    </div>
  );
}
