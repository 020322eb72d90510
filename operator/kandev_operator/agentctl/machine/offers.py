"""What an agent says that it offers, read out of whatever it really sent.

Modes, config options, commands, a title and the usage come in the answer that opens a conversation
and in updates afterwards. Nothing of it is trusted: what does not fit is left out, texts and lists
are bounded, and a broken entry takes no other with it. Agents that speak of models in the older
way (`models`, `session/set_model`) get a config option of category `model` for it, unless they
have one already.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kandev_operator.contract.conversation import (
    Choice,
    Command,
    ConfigOption,
    ConversationReport,
    Mode,
    TurnUsage,
    Usage,
)

ENTRIES: Final = 200
ID_CHARS: Final = 200
TEXT_CHARS: Final = 500
MODEL_CATEGORY: Final = "model"
MODEL_OPTION: Final = "session/set_model"
"""The id of the option that stands for the older way; it is also how that is chosen."""
LARGEST: Final = 2**53


def of_answer(answer: Mapping[str, Any]) -> ConversationReport:
    """What the answer to session/new, session/load or session/resume holds."""
    report = _with_modes(ConversationReport(), answer.get("modes"))
    config = config_options(answer.get("configOptions"))
    if not any(option.category == MODEL_CATEGORY for option in config):
        config += _models(answer.get("models"))
    return report.model_copy(update={"config": config})


def merged(told: ConversationReport, before: ConversationReport) -> ConversationReport:
    """The answer that opens a conversation, and what updates said ahead of it.

    Commands, title and usage come in updates only; modes and options are whole in the answer, if
    it has them at all.
    """
    kept: dict[str, Any] = {
        "title": before.title,
        "commands": before.commands,
        "usage": before.usage,
    }
    if not told.modes:
        kept |= {"modes": before.modes, "mode_id": before.mode_id}
    if not told.config:
        kept |= {"config": before.config}
    return told.model_copy(update=kept)


def updated(report: ConversationReport, update: Mapping[str, Any]) -> ConversationReport:
    """The report after an update; the same value where it says nothing that can be read."""
    match update.get("sessionUpdate"):
        case "current_mode_update":
            return with_mode(report, update.get("currentModeId"))
        case "config_option_update":
            options = config_options(update.get("configOptions"))
            return with_config(report, options) if options else report
        case "available_commands_update":
            commands = tuple(_commands(update.get("availableCommands")))
            return report.model_copy(update={"commands": commands})
        case "session_info_update" if isinstance(title := update.get("title"), str):
            return report.model_copy(update={"title": title[:TEXT_CHARS]})
        case "usage_update":
            usage = _usage(update)
            return report.model_copy(update={"usage": usage}) if usage else report
        case _:
            return report


def with_mode(report: ConversationReport, mode_id: Any) -> ConversationReport:
    """Another mode is current; the config option that mirrors the modes says so, too."""
    if not isinstance(mode_id, str) or not 0 < len(mode_id) <= ID_CHARS:
        return report
    config = tuple(
        option.model_copy(update={"value": mode_id})
        if option.category == "mode" and any(c.value == mode_id for c in option.choices)
        else option
        for option in report.config
    )
    return report.model_copy(update={"mode_id": mode_id, "config": config})


def with_config(
    report: ConversationReport, options: tuple[ConfigOption, ...]
) -> ConversationReport:
    """The agent told all its options anew; one of category `mode` is the mode as well."""
    older = tuple(o for o in report.config if o.config_id == MODEL_OPTION)
    if any(option.category == MODEL_CATEGORY for option in options):
        older = ()
    changes: dict[str, Any] = {"config": options + older}
    for option in options:
        known = any(mode.mode_id == option.value for mode in report.modes)
        if option.category == "mode" and known:
            changes["mode_id"] = option.value
    return report.model_copy(update=changes)


def turn_usage(told: Any) -> TurnUsage | None:
    """The token counts in the answer to a prompt."""
    if not isinstance(told, Mapping):
        return None
    names = {
        "total_tokens": "totalTokens",
        "input_tokens": "inputTokens",
        "output_tokens": "outputTokens",
        "thought_tokens": "thoughtTokens",
        "cached_read_tokens": "cachedReadTokens",
        "cached_write_tokens": "cachedWriteTokens",
    }
    counts = {name: _count(told.get(wire)) for name, wire in names.items()}
    if any(counts[name] is None for name in ("total_tokens", "input_tokens", "output_tokens")):
        return None
    return TurnUsage.model_validate(counts)


def config_options(told: Any) -> tuple[ConfigOption, ...]:
    """The options that can be read, in the agent's order."""
    found: list[ConfigOption] = []
    for entry in _entries(told):
        config_id = _id(entry.get("id"))
        value = entry.get("currentValue")
        if config_id is None or not isinstance(value, str | bool):
            continue
        if isinstance(value, str) and not 0 < len(value) <= ID_CHARS:
            continue
        category = entry.get("category")
        found.append(
            ConfigOption(
                config_id=config_id,
                name=_text(entry.get("name")) or config_id,
                description=_text(entry.get("description")),
                category=category[:ID_CHARS] if isinstance(category, str) else None,
                value=value,
                choices=() if isinstance(value, bool) else _choices(entry.get("options")),
            )
        )
    return tuple(found)


def _choices(told: Any) -> tuple[Choice, ...]:
    """The values of an option; those in groups one after the other."""
    flat: list[Choice] = []
    for entry in _entries(told):
        inner = entry.get("options")
        for one in _entries(inner) if isinstance(inner, list) else (entry,):
            value = _id(one.get("value"))
            if value is not None and len(flat) < ENTRIES:
                name = _text(one.get("name")) or value
                described = _text(one.get("description"))
                flat.append(Choice(value=value, name=name, description=described))
    return tuple(flat)


def _with_modes(report: ConversationReport, told: Any) -> ConversationReport:
    if not isinstance(told, Mapping):
        return report
    modes = tuple(
        Mode(
            mode_id=mode_id,
            name=_text(entry.get("name")) or mode_id,
            description=_text(entry.get("description")),
        )
        for entry in _entries(told.get("availableModes"))
        if (mode_id := _id(entry.get("id"))) is not None
    )
    return report.model_copy(update={"modes": modes, "mode_id": _id(told.get("currentModeId"))})


def _models(told: Any) -> tuple[ConfigOption, ...]:
    if not isinstance(told, Mapping):
        return ()
    current = _id(told.get("currentModelId"))
    choices = _choices(
        [
            {
                "value": entry.get("modelId"),
                "name": entry.get("name"),
                "description": entry.get("description"),
            }
            for entry in _entries(told.get("availableModels"))
        ]
    )
    if current is None or not choices:
        return ()
    return (
        ConfigOption(
            config_id=MODEL_OPTION,
            name="Model",
            category=MODEL_CATEGORY,
            value=current,
            choices=choices,
        ),
    )


def _commands(told: Any) -> Iterable[Command]:
    for entry in _entries(told):
        name = _id(entry.get("name"))
        if name is None:
            continue
        wanted = entry.get("input")
        hint = wanted.get("hint") if isinstance(wanted, Mapping) else None
        yield Command(
            name=name,
            description=_text(entry.get("description")),
            hint=hint[:TEXT_CHARS] if isinstance(hint, str) else None,
        )


def _usage(told: Mapping[str, Any]) -> Usage | None:
    used, size = _count(told.get("used")), _count(told.get("size"))
    if used is None or size is None:
        return None
    cost = told.get("cost")
    cost = cost if isinstance(cost, Mapping) else {}
    amount, currency = cost.get("amount"), cost.get("currency")
    return Usage(
        used=used,
        size=size,
        cost=_price(amount),
        currency=currency[:16] if isinstance(currency, str) else None,
    )


def _price(told: Any) -> float | None:
    """A number that JSON can write again: neither infinite nor none at all."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return float(told) if abs(told) < LARGEST else None


def _entries(told: Any) -> list[Mapping[str, Any]]:
    if not isinstance(told, list):
        return []
    return [entry for entry in told[:ENTRIES] if isinstance(entry, Mapping)]


def _id(told: Any) -> str | None:
    return told if isinstance(told, str) and 0 < len(told) <= ID_CHARS else None


def _text(told: Any) -> str:
    return told[:TEXT_CHARS] if isinstance(told, str) else ""


def _count(told: Any) -> int | None:
    if isinstance(told, bool) or not isinstance(told, int):
        return None
    return told if 0 <= told <= LARGEST else None
