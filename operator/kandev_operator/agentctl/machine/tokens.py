"""The resume token's rules: promised, established, replaced, and who may do so.

A token is promised by the agent's answer to session/new and established by a completed turn. Only
a fresh start retires it, and only an id that the agent itself answers takes its place; an older
epoch never does either. It belongs to the agent and the profile that it was made with: one of
another agent is told as invalid, whether that is known beforehand or only explains a not-found,
and is kept for the day on which its own agent is back. Values leave this room in `StoreToken`
alone; events carry a hash.
"""

from dataclasses import replace
from hashlib import sha256

from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import StoreToken
from kandev_operator.agentctl.machine.state import KEPT_TOKENS, State, Token
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import Failure, FailureCode


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
    state = draft.state
    _put(draft, Token(value, established, epoch, _name(state), state.running_profile_uid), epoch)


def establish(draft: Draft, value: str | None) -> None:
    """A turn was completed in this conversation."""
    current = draft.state.token
    if current is None or current.value != value or current.established:
        return
    _put(draft, replace(current, established=True), current.epoch)


def _name(state: State) -> str | None:
    """The present agent's name, as it gave it itself."""
    agent = state.capabilities.agent
    return agent.name if agent is not None and agent.name else None


def _maker(state: State, value: str) -> str | None:
    """Who made this token, where that is known and it is not the present agent."""
    token, name = state.token, _name(state)
    if token is None or token.value != value or token.agent is None or name is None:
        return None
    return token.agent if token.agent != name else None


def foreign(state: State, value: str) -> Failure | None:
    """A token that the present agent need not be asked about: another agent's, of another profile.

    An agent may change its name with a new version, and a profile may be made again: only both
    together prove it.
    """
    maker, token = _maker(state, value), state.token
    if maker is None or token is None:
        return None
    profiles = (token.profile, state.running_profile_uid)
    if None in profiles or profiles[0] == profiles[1]:
        return None
    return _of_another(maker, state)


def judged(state: State, failure: Failure) -> Failure:
    """A not-found for a token that another agent made says nothing about the conversation."""
    wish = state.wish
    if failure.code != FailureCode.SESSION_NOT_FOUND or wish is None or wish.token is None:
        return failure
    maker = _maker(state, wish.token)
    if maker is None:
        return failure
    return _of_another(maker, state).model_copy(update={"agent_code": failure.agent_code})


def _of_another(maker: str, state: State) -> Failure:
    message = f"the conversation was made with {maker}, and {_name(state)} is another agent"
    return Failure(code=FailureCode.INVALID_TOKEN, message=message)


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
