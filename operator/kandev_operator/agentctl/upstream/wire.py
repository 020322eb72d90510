"""What a Kandev agentctl says, in the words of the Agent Client Protocol; and what it is told.

Pure translation, table by table: their stream's events become `session/update`s, their permission
requests become titles and options, their error texts become failures with stable codes, content
blocks become the text and attachments that they take. What comes in is not trusted: a field of
another type than expected counts as absent. Nothing here knows sockets, times or sessions.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.agentctl import verdicts
from kandev_operator.agentctl.verdicts import Fault
from kandev_operator.contract.status import (
    AgentInfo,
    Failure,
    FailureCode,
    PromptCapabilities,
)

Json = dict[str, Any]

TOOL_STATUS: Final = {
    "pending": "pending",
    "pending_permission": "pending",
    "running": "in_progress",
    "in_progress": "in_progress",
    "complete": "completed",
    "completed": "completed",
    "error": "failed",
    "failed": "failed",
    "cancelled": "failed",
}
ACP_KINDS: Final = frozenset(
    {
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    }
)
KIND_OF_NORMALIZED: Final = {
    "read_file": "read",
    "modify_file": "edit",
    "shell_exec": "execute",
    "code_search": "search",
    "http_request": "fetch",
}
KIND_OF_ACTION: Final = {
    "command": "execute",
    "file_write": "edit",
    "file_read": "read",
    "network": "fetch",
}
NO_LOADING: Final = "does not support session loading"
NOT_INITIALIZED: Final = "not initialized"
NOT_RUNNING: Final = "agent not running"
MAX_ID: Final = 64 * 1024


# ---- what the agent says ---------------------------------------------------------------


def updates(event: Mapping[str, Any]) -> tuple[Json, ...]:
    """The `session/update`s that an event of their stream stands for; none for other events."""
    match event.get("type"):
        case "message_chunk":
            return _chunk("agent_message_chunk", event, "text")
        case "reasoning":
            return _chunk("agent_thought_chunk", event, "reasoning_text")
        case "tool_call":
            return _tool("tool_call", event)
        case "tool_update":
            return _tool("tool_call_update", event)
        case "plan":
            return _plan(event.get("plan_entries"))
        case "agent_plan":
            text = _text(event, "plan_content")
            return _plan([{"description": text}] if text else None)
        case _:
            return _about_the_conversation(event)


def _about_the_conversation(event: Mapping[str, Any]) -> tuple[Json, ...]:
    match event.get("type"):
        case "available_commands":
            commands = [_command(_object(c)) for c in _list(event.get("available_commands"))]
            return ({"sessionUpdate": "available_commands_update", "availableCommands": commands},)
        case "session_mode":
            mode = _text(event, "current_mode_id")
            return ({"sessionUpdate": "current_mode_update", "currentModeId": mode},)
        case "session_models":
            options = offers(event).get("configOptions")
            if not options:
                return ()
            return ({"sessionUpdate": "config_option_update", "configOptions": options},)
        case "session_info":
            title = _text(event, "session_title")
            return ({"sessionUpdate": "session_info_update", "title": title},) if title else ()
        case "context_window":
            used, size = event.get("context_window_used"), event.get("context_window_size")
            return ({"sessionUpdate": "usage_update", "used": used, "size": size},)
        case _:
            return ()


def offers(event: Mapping[str, Any]) -> Json:
    """What the agent offers in a conversation, as its own answer to session/new would tell it."""
    match event.get("type"):
        case "session_mode":
            modes = [_object(m) for m in _list(event.get("available_modes"))]
            current = _text(event, "current_mode_id")
            return {"modes": {"currentModeId": current, "availableModes": modes}}
        case "session_models":
            told: Json = {}
            models = [_object(m) for m in _list(event.get("session_models"))]
            if models and (current := _text(event, "current_model_id")):
                known = [{**m, "modelId": m.get("model_id")} for m in models]
                told["models"] = {"currentModelId": current, "availableModels": known}
            options = [_object(o) for o in _list(event.get("config_options"))]
            if options:
                told["configOptions"] = [
                    {**o, "currentValue": o.get("current_value")} for o in options
                ]
            return told
        case _:
            return {}


def _command(told: Json) -> Json:
    command = {"name": told.get("name"), "description": told.get("description")}
    hint = _text(told, "input_hint")
    return command | ({"input": {"hint": hint}} if hint else {})


def _chunk(kind: str, event: Mapping[str, Any], field: str) -> tuple[Json, ...]:
    text = _text(event, field)
    if not text:
        return ()
    update: Json = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    if own_id := _text(event, "protocol_message_id"):
        update["messageId"] = own_id
    return (update,)


def _tool(kind: str, event: Mapping[str, Any]) -> tuple[Json, ...]:
    call_id = _text(event, "tool_call_id")
    if not call_id:
        return ()
    update: Json = {"sessionUpdate": kind, "toolCallId": call_id}
    if title := _text(event, "tool_title"):
        update["title"] = title
    if status := TOOL_STATUS.get(_text(event, "tool_status")):
        update["status"] = status
    name, normalized = _text(event, "tool_name"), _object(event.get("normalized"))
    told = _text(normalized, "kind")
    if name or told:
        update["kind"] = name if name in ACP_KINDS else KIND_OF_NORMALIZED.get(told, "other")
    if detail := normalized.get(told):
        update["rawInput"] = detail
    if diff := _text(event, "diff"):
        update["content"] = [{"type": "content", "content": {"type": "text", "text": diff}}]
    return (update,)


def _plan(entries: Any) -> tuple[Json, ...]:
    if not isinstance(entries, list):
        return ()
    known = [_object(e) for e in entries]
    told = [
        {
            "content": _text(e, "description"),
            "status": _text(e, "status") or "pending",
            "priority": _text(e, "priority") or "medium",
        }
        for e in known
    ]
    return ({"sessionUpdate": "plan", "entries": told},)


@dataclass(frozen=True, slots=True)
class Asked:
    """A permission request: how to answer it there, and what to show here."""

    request_id: str
    pending_id: str
    title: str
    tool_kind: str | None
    options: tuple[tuple[str, str, str], ...]
    """(option_id, name, kind)."""


def asked(told: Mapping[str, Any]) -> Asked | None:
    """A request, from their event or from their list of open ones."""
    request_id, pending_id = _text(told, "request_id"), _text(told, "pending_id")
    if not pending_id:
        return None
    action = _text(told, "action_type") or _text(_object(told.get("action")), "type")
    offered = told.get("permission_options")
    options = []
    for option in (offered if isinstance(offered, list) else told.get("options")) or ():
        if option_id := _text(_object(option), "option_id"):
            name, kind = _text(option, "name") or option_id, _text(option, "kind")
            options.append((option_id[:200], name[:200], kind[:100]))
    return Asked(
        request_id=request_id,
        pending_id=pending_id,
        title=(_text(told, "permission_title") or _text(told, "title") or "a tool call")[:500],
        tool_kind=KIND_OF_ACTION.get(action, action)[:100] or None,
        options=tuple(options[:20]),
    )


def generation(event: Mapping[str, Any]) -> int | None:
    """Which prompt the event is about, where it says so."""
    found = event.get("prompt_generation")
    known = isinstance(found, int) and not isinstance(found, bool) and found > 0
    return found if known else None


def stop_reason(event: Mapping[str, Any]) -> str:
    return _text(_object(event.get("data")), "stop_reason") or "unknown"


def usage(event: Mapping[str, Any]) -> Json | None:
    """The token counts of a turn that ended."""
    told = _object(event.get("usage"))
    names = {
        "totalTokens": "total_tokens",
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "thoughtTokens": "thought_tokens",
        "cachedReadTokens": "cached_read_tokens",
        "cachedWriteTokens": "cached_write_tokens",
    }
    return {name: told[theirs] for name, theirs in names.items() if theirs in told} or None


def prompt_capabilities(event: Mapping[str, Any]) -> PromptCapabilities:
    """What prompts may hold; embedded resources have no place in theirs."""
    return PromptCapabilities(
        image=event.get("supports_image") is True, audio=event.get("supports_audio") is True
    )


def choice(method: str, token: str, params: Mapping[str, Any]) -> tuple[str, Json]:
    """A choice among what is offered, as their call; raises Fault for one they cannot take."""
    match method:
        case "session/set_mode":
            payload = {"session_id": token, "mode_id": params.get("modeId")}
            return "agent.session.set_mode", payload
        case "session/set_model":
            return "agent.session.set_model", {"model_id": params.get("modelId")}
        case "session/set_config_option" if isinstance(params.get("value"), str):
            payload = {"config_id": params.get("configId"), "value": params.get("value")}
            return "agent.session.set_config_option", payload
        case _:
            words = f"a Kandev agentctl has no call for this {method[:40]}"
            raise Fault(Failure(code=FailureCode.REJECTED, message=words))


def session_id(told: Mapping[str, Any]) -> str | None:
    """The agent's id of a conversation in an answer, where it is a usable one."""
    found = told.get("session_id")
    usable = isinstance(found, str) and found.strip() and len(found) <= MAX_ID
    return str(found) if usable else None


def agent_info(told: Mapping[str, Any]) -> AgentInfo | None:
    info = _object(told.get("agent_info"))
    name = _text(info, "name")
    return AgentInfo(name=name[:200], version=_text(info, "version")[:200]) if name else None


# ---- what went wrong -------------------------------------------------------------------


def failure_of(message: str, hide: Callable[[str], str]) -> Failure:
    """A failed call. The agent's own JSON-RPC error stands behind a few words of theirs."""
    if NO_LOADING in message:
        return Failure(code=FailureCode.RESUME_UNSUPPORTED, message=hide(message)[:500])
    start = message.find("{")
    if start >= 0:
        try:
            error = json.loads(message[start:])
        except ValueError:
            error = None
        if isinstance(error, dict) and isinstance(code := error.get("code"), int):
            return verdicts.failure_of(
                code, hide(_text(error, "message")), _hidden(error.get("data"), hide)
            )
    return Failure(code=FailureCode.AGENT_ERROR, message=hide(message)[:500])


def turn_failure(event: Mapping[str, Any], hide: Callable[[str], str]) -> Failure:
    """A turn that ended with an error."""
    provider = _object(event.get("provider_error"))
    words = _text(event, "error") or _text(provider, "message") or "the turn failed"
    code = provider.get("rpc_code")
    if isinstance(code, int) and not isinstance(code, bool):
        return verdicts.failure_of(code, hide(words), None)
    return failure_of(words, hide)


def _hidden(data: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(data, dict):
        return {k: hide(v) if isinstance(v, str) else v for k, v in data.items()}
    return hide(data) if isinstance(data, str) else data


# ---- what they are told ----------------------------------------------------------------


def prompt(content: tuple[Json, ...]) -> Json:
    """Content blocks as text and attachments; raises Fault for a block they have no place for."""
    texts: list[str] = []
    attachments: list[Json] = []
    for block in content:
        match block.get("type"):
            case "text":
                texts.append(_text(block, "text"))
            case "resource_link":
                texts.append(_text(block, "uri"))
            case "image" | "audio" as kind:
                attached = {"type": kind, "data": _text(block, "data")}
                attachments.append(attached | {"mime_type": _text(block, "mimeType")})
            case other:
                words = f"a Kandev agentctl takes no content of type {str(other)[:40]}"
                raise Fault(Failure(code=FailureCode.REJECTED, message=words))
    told: Json = {"text": "\n".join(t for t in texts if t)}
    return told | ({"attachments": attachments} if attachments else {})


def mcp_servers(servers: tuple[Json, ...]) -> list[Json]:
    """MCP servers of the protocol in their form: pairs become maps."""
    told = []
    for server in servers:
        fields = {k: v for k, v in server.items() if k in ("name", "url", "command", "args")}
        kind = _text(server, "type") or ("http" if "url" in server else "stdio")
        fields["type"] = kind
        for name in ("env", "headers"):
            if pairs := server.get(name):
                fields[name] = _map(pairs)
        told.append(fields)
    return told


def _map(pairs: Any) -> Json:
    if isinstance(pairs, dict):
        return {str(k): str(v) for k, v in pairs.items()}
    known = [_object(p) for p in pairs] if isinstance(pairs, list | tuple) else []
    return {_text(p, "name"): _text(p, "value") for p in known if _text(p, "name")}


def _text(told: Mapping[str, Any], name: str) -> str:
    found = told.get(name)
    return found if isinstance(found, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
