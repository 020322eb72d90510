"""Modes and config options of the open conversation: what is offered, and choosing among it.

A choice is an operation: stored before it is asked of the agent, one at a time, with one outcome.
Only what the agent offered can be chosen. The agent's own word counts in the end: it may change
a mode by itself at any time, and its answer to a change of an option tells all options anew. What
was learned of a conversation dies with the process that said it.
"""

from typing import Any

from kandev_operator.agentctl.machine import messages, offers, sameness
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import Choose, OperationReply, Refused, Reply
from kandev_operator.agentctl.machine.events import (
    SettingAnswered,
    SettingAsked,
    SettingFailed,
)
from kandev_operator.agentctl.machine.state import Setting, State
from kandev_operator.agentctl.machine.tables import OPEN
from kandev_operator.contract.conversation import ConfigOption, ConversationReport
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import Failure, Operation, OperationState


def learn(draft: Draft, report: ConversationReport) -> None:
    """Remember what is offered now, and tell it if it is news. Usage alone is told as a message:
    it moves all the time, and nobody decides anything by it."""
    before = draft.state.conversation
    if report == before:
        return
    draft.set(conversation=report)
    if report.model_copy(update={"usage": before.usage}) != before:
        draft.emit(EventKind.CONVERSATION, {"conversation": report.model_dump(mode="json")})
    elif report.usage is not None:
        messages.usage(draft, report.usage.model_dump(mode="json"))


def updated(draft: Draft, update: dict[str, Any]) -> None:
    """An update about the conversation as a whole."""
    learn(draft, offers.updated(draft.state.conversation, update))


def ask(draft: Draft, event: SettingAsked) -> Reply:
    """Accept a choice, or say why not."""
    state = draft.state
    digest = sameness.of(event)
    for known in state.operations:
        if known.operation_id == event.operation_id:
            return sameness.conflict(known.request_sha256, digest) or OperationReply(known)
    if state.status not in OPEN or state.execution_id is None or state.opened_token is None:
        return Refused(Code.AGENT_NOT_RUNNING, "no conversation is open")
    if state.setting is not None:
        details = {"operation_id": state.setting.operation_id}
        return Refused(Code.OPERATION_CONFLICT, "another choice is being made", details)
    wanted = _request(state, event)
    if isinstance(wanted, Refused):
        return wanted
    method, params = wanted
    operation = Operation(
        operation_id=event.operation_id,
        kind=event.kind,
        epoch=event.epoch,
        state=OperationState.RUNNING,
        started_at=event.at,
        execution_id=state.execution_id,
        method=method,
        request_sha256=digest,
    )
    draft.put_operation(operation)
    draft.set(setting=Setting(event.operation_id, event.kind, event.name, event.value))
    draft.acts.append(
        Choose(state.execution_id, event.operation_id, state.opened_token, method, params)
    )
    return OperationReply(operation)


def _request(state: State, event: SettingAsked) -> tuple[str, dict[str, Any]] | Refused:
    """The agent's method for this choice and its parameters, if it is offered."""
    offered = state.conversation
    if event.kind == "mode":
        modes = [mode.mode_id for mode in offered.modes]
        if event.value in modes:
            return "session/set_mode", {"modeId": event.value}
        return _not_offered("the agent offers no such mode", modes)
    option = _option(offered, event.name)
    if option is None:
        known = [o.config_id for o in offered.config]
        return _not_offered("the agent offers no such config option", known)
    if isinstance(option.value, bool):
        if not isinstance(event.value, bool):
            return Refused(Code.INVALID_REQUEST, "this option is on or off")
        params = {"configId": event.name, "type": "boolean", "value": event.value}
        return "session/set_config_option", params
    values = [choice.value for choice in option.choices]
    if event.value not in values:
        return _not_offered("the option has no such value", values)
    if option.config_id == offers.MODEL_OPTION:
        return "session/set_model", {"modelId": event.value}
    return "session/set_config_option", {"configId": event.name, "value": event.value}


def _option(offered: ConversationReport, config_id: str) -> ConfigOption | None:
    return next((o for o in offered.config if o.config_id == config_id), None)


def _not_offered(message: str, offered: list[str]) -> Refused:
    return Refused(Code.NOT_OFFERED, message, {"offers": offered[:50]})


def answered(draft: Draft, event: SettingAnswered) -> None:
    """The agent made the choice."""
    setting = draft.state.setting
    if setting is None or setting.operation_id != event.operation_id:
        return
    report = draft.state.conversation
    if setting.kind == "mode":
        learn(draft, offers.with_mode(report, setting.value))
    elif options := offers.config_options(event.answer.get("configOptions")):
        learn(draft, offers.with_config(report, options))
    else:
        config = tuple(
            o.model_copy(update={"value": setting.value}) if o.config_id == setting.name else o
            for o in report.config
        )
        learn(draft, report.model_copy(update={"config": config}))
    _over(draft, {"state": OperationState.SUCCEEDED})


def failed(draft: Draft, event: SettingFailed) -> None:
    """The agent refused the choice, or did not answer in time."""
    setting = draft.state.setting
    if setting is not None and setting.operation_id == event.operation_id:
        give_up(draft, event.failure)


def give_up(draft: Draft, failure: Failure) -> None:
    """Whatever was being chosen will not be answered any more."""
    if draft.state.setting is not None:
        _over(draft, {"state": OperationState.FAILED, "failure": failure})


def _over(draft: Draft, outcome: dict[str, Any]) -> None:
    setting = draft.state.setting
    assert setting is not None
    draft.set(setting=None)
    for operation in draft.state.operations:
        if operation.operation_id == setting.operation_id:
            ended = {"ended_at": draft.at, **outcome}
            draft.put_operation(operation.model_copy(update=ended))
