"""What the scripted agent offers in a conversation, and how it takes a choice among it.

Modes, config options and models, each only where it was told so. It answers with what holds for
a session now, and refuses what it never offered. It refuses to act differently in any mode.
"""

from __future__ import annotations

import argparse
from typing import Any

from fakes.scripted.wire import Json, RefusedError, invalid

MODES = ("build", "plan")
EFFORTS = ("low", "high")
MODELS = ("small", "large")


class Offers:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.chosen: dict[str, Json] = {}

    def of(self, session_id: str) -> Json:
        """The current choices of a session."""
        first: Json = {"mode": MODES[0], "effort": EFFORTS[0], "web": False, "model": MODELS[0]}
        return self.chosen.setdefault(session_id, first)

    def told(self, session_id: str) -> Json:
        """What an answer that opens a conversation says of them."""
        now, result = self.of(session_id), Json()
        if self.options.modes:
            modes = [{"id": mode, "name": mode.title()} for mode in MODES]
            result["modes"] = {"currentModeId": now["mode"], "availableModes": modes}
        if self.options.config:
            result["configOptions"] = self.config(session_id)
        if self.options.models:
            models = [{"modelId": model, "name": model.title()} for model in MODELS]
            result["models"] = {"currentModelId": now["model"], "availableModels": models}
        return result

    def config(self, session_id: str) -> list[Json]:
        now = self.of(session_id)
        efforts = [{"value": effort, "name": effort.title()} for effort in EFFORTS]
        effort: Json = {"id": "effort", "name": "Effort", "type": "select", "options": efforts}
        effort |= {"category": "thought_level", "currentValue": now["effort"]}
        web = {"id": "web", "name": "Web", "type": "boolean", "currentValue": now["web"]}
        return [effort, web]

    def choose(self, method: str, params: Json) -> Json:
        """The answer to session/set_mode, session/set_config_option or session/set_model."""
        self.refuse()
        session_id = str(params.get("sessionId"))
        now = self.of(session_id)
        if method == "session/set_config_option":
            name, value = params.get("configId"), params.get("value")
            known: tuple[Any, ...] = {"effort": EFFORTS, "web": (True, False)}.get(str(name), ())
            self.put(now, str(name), value, known if self.options.config else ())
            return {"configOptions": self.config(session_id)}
        if method == "session/set_mode":
            self.put(now, "mode", params.get("modeId"), MODES if self.options.modes else ())
        else:
            self.put(now, "model", params.get("modelId"), MODELS if self.options.models else ())
        return {}

    def put(self, now: Json, name: str, value: Any, known: tuple[Any, ...]) -> None:
        if value not in known:
            raise invalid(f"{name} is one of {known}")
        now[name] = value

    def refuse(self) -> None:
        if self.options.setting_error:
            code, _, message = self.options.setting_error.partition(":")
            raise RefusedError(int(code), message or "Internal error")
