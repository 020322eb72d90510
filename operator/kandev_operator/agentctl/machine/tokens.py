"""The resume token's rules: promised, established, replaced, and who may do so.

A token is promised by the agent's answer to session/new and established by a completed turn. Only
a fresh start retires it, and only an id that the agent itself answers takes its place; an older
epoch never does either. Values leave this room in `StoreToken` alone; events carry a hash.
"""

from hashlib import sha256

from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import StoreToken
from kandev_operator.agentctl.machine.state import KEPT_TOKENS, Token
from kandev_operator.contract.events import EventKind


def digest(value: str) -> str:
    """What may be shown of a token."""
    return sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def retire(draft: Draft, epoch: int) -> None:
    """A fresh start of this epoch: no token is current any more."""
    current = draft.state.token
    if current is None or epoch < current.epoch:
        return
    _put(draft, None, epoch)


def adopt(draft: Draft, value: str, *, established: bool, epoch: int) -> None:
    """Make an id that the agent answered the current token, unless an older epoch says so."""
    current = draft.state.token
    if current is not None:
        if epoch < current.epoch:
            return
        if current.value == value:
            established = established or current.established
    _put(draft, Token(value, established, epoch), epoch)


def establish(draft: Draft, value: str | None) -> None:
    """A turn was completed in this conversation."""
    current = draft.state.token
    if current is None or current.value != value or current.established:
        return
    _put(draft, Token(current.value, True, current.epoch), current.epoch)


def _put(draft: Draft, token: Token | None, epoch: int) -> None:
    current = draft.state.token
    if token == current:
        return
    previous = draft.state.previous_tokens
    if current is not None and (token is None or token.value != current.value):
        previous = (current.value, *(v for v in previous if v != current.value))
    if token is not None:
        previous = tuple(v for v in previous if v != token.value)
    previous = previous[:KEPT_TOKENS]
    draft.set(token=token, previous_tokens=previous)
    draft.stores.append(StoreToken(token, previous, epoch, draft.at))
    draft.emit(
        EventKind.TOKEN,
        {
            "sha256": digest(token.value) if token else None,
            "established": token.established if token else False,
        },
    )
