"""What every status of a TaskSession must be at every moment, whatever is being tested.

Tests look at status many times a second; each look passes through here, so that a contradiction
that lasts for one write only is found as well.
"""

import re
from typing import Any

from kandev_operator.api.reasons import is_documented

Body = dict[str, Any]
_REASON = re.compile(r"[A-Z][A-Za-z0-9]*")


def contradictions(session: Body) -> list[str]:
    """Everything in this session's status that cannot be true together."""
    status = session.get("status") or {}
    if not status.get("conditions"):
        return []  # the operator has not seen it yet
    generation = session["metadata"]["generation"]
    return [*_of_conditions(status, generation), *_of_the_state(status), *_of_the_agent(status)]


def _of_conditions(status: Body, generation: int) -> list[str]:
    found: list[str] = []
    types = [each["type"] for each in status["conditions"]]
    if len(set(types)) != len(types):
        found.append(f"a condition type stands twice: {types}")
    for each in status["conditions"]:
        type_, reason = each["type"], each.get("reason") or ""
        if not (_REASON.fullmatch(reason) and is_documented(type_, reason)):
            found.append(f"{type_} has the reason {reason!r}")
        if each.get("status") not in ("True", "False", "Unknown"):
            found.append(f"{type_} is {each.get('status')!r}")
        if not each.get("lastTransitionTime"):
            found.append(f"{type_} has no lastTransitionTime")
        if each.get("observedGeneration") != status.get("observedGeneration"):
            found.append(f"{type_} is of another generation than the status")
    if status.get("observedGeneration", 0) > generation:
        found.append("the status is of a generation that is yet to come")
    return found


def _of_the_state(status: Body) -> list[str]:
    found: list[str] = []
    is_ = {each["type"]: each["status"] for each in status["conditions"]}
    stalled, reconciling = "Stalled" in is_, "Reconciling" in is_
    if stalled and reconciling:
        found.append("both Stalled and Reconciling")
    if stalled and is_["Ready"] == "True":
        found.append("Ready and Stalled")
    if status["state"] == "ERROR":
        if not status.get("errorMessage"):
            found.append("ERROR without words")
        if not (stalled or reconciling):
            found.append("ERROR, neither Stalled nor Reconciling")
        if is_["Ready"] == "True":
            found.append("ERROR and Ready")
    elif status.get("errorMessage"):
        found.append(f"{status['state']} with an error message")
    if (is_["Finished"] == "True") is not (status["state"] in ("COMPLETED", "CANCELLED")):
        found.append(f"{status['state']}, and Finished is {is_['Finished']}")
    return found


def _of_the_agent(status: Body) -> list[str]:
    found: list[str] = []
    is_ = {each["type"]: each["status"] for each in status["conditions"]}
    running, needs = status.get("isAgentRunning"), status.get("needsResume")
    if needs and running is not False:
        found.append("needs a resume, and its agent is not known to be gone")
    if is_["AgentReady"] == "True" and running is not True:
        found.append("AgentReady without an agent that runs")
    if running is False and status.get("agentExecutionId"):
        found.append("an execution without an agent that runs")
    if running and not status.get("agentExecutionId"):
        found.append("an agent without an execution")
    if running is False and status.get("turn"):
        found.append("a turn without an agent that runs")
    told = {"True": True, "False": False, "Unknown": None}[is_["Resumable"]]
    if told is not status.get("isResumable"):
        found.append(f"isResumable {status.get('isResumable')}, Resumable {is_['Resumable']}")
    if status.get("executorStatus") not in (None, "starting", "ready", "error", "stopped"):
        found.append(f"executorStatus {status.get('executorStatus')}")
    return found
