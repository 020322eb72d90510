"""Every reason has its sentence, and every reason that was promised exists."""

from pathlib import Path

import pytest

from kandev_operator.api import crd, executor, profile, reasons, session, task
from kandev_operator.api.words import Word

README = Path(__file__).parents[3] / "crds" / "README.md"

# Words that users, pages and runbooks rely on.
PROMISED = [
    "AgentNotRunning",
    "NotResumable",
    "MissingResumeToken",
    "ResumeTokenUnknown",
    "SessionNotFound",
    "HistoryLost",
    "InvalidResumeToken",
    "ResumeFailed",
    "ResumeTimedOut",
    "WorkspaceMissing",
    "WorkspaceInUse",
    "AgentExited",
    "AuthenticationRequired",
    "OOMKilled",
    "PodEvicted",
    "PodDeleted",
    "NodeLost",
    "CrashLoopBackOff",
    "ImagePullFailed",
    "Unschedulable",
    "InitFailed",
    "InvalidTemplate",
    "QuotaExceeded",
    "AgentctlUnreachable",
    "AgentctlUnhealthy",
    "AuthenticationFailed",
    "ForeignAgentctl",
    "ClockSkew",
    "DockerUnavailable",
    "ContainerMissing",
    "CapabilityUnknown",
    "ExecutorBusy",
    "ExecutorMissing",
    "ProfileMissing",
    "TaskMissing",
    "MaxAttempts",
    "IdleTimeout",
    "Expired",
    "Superseded",
    "Idle",
    "Requested",
    "AgentReady",
    "TurnRunning",
    "Starting",
    "Resuming",
    "WaitingForExecutor",
    "Bound",
    "NotBound",
    "Interrupted",
    "JournalUnreadable",
    "JournalFull",
    "SpecInvalid",
    "NotAllowed",
    "WorktreeMissing",
    "CommandNotFound",
    "ProtocolMismatch",
    "InitializeFailed",
    "Suspended",
]

enums = sorted({*reasons.BY_CONDITION.values()}, key=lambda each: each.__name__)


@pytest.mark.parametrize("words", enums, ids=lambda each: each.__name__)
def test_every_reason_is_one_documented_word(words: type[Word]) -> None:
    for word in words:
        assert word.isalnum(), word
        assert word[0].isupper(), word
        assert word.name == reasons.resume_word(word).upper()
        assert word.doc.endswith("."), word
        assert len(word.doc) <= 100, word


@pytest.mark.parametrize("promised", PROMISED)
def test_every_promised_reason_exists(promised: str) -> None:
    assert promised in reasons.RESUME_REASON


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("AgentNotRunning", "agent_not_running"),
        ("OOMKilled", "oom_killed"),
        ("ResumeFailed", "resume_failed"),
        ("ExecutorNotReady", "executor_not_ready"),
        ("MissingResumeToken", "missing_resume_token"),
        ("CrashLoopBackOff", "crash_loop_back_off"),
        ("Idle", "idle"),
    ],
)
def test_words_of_the_pages(reason: str, word: str) -> None:
    assert reasons.RESUME_REASON[reason] == word


def test_two_reasons_never_share_a_word() -> None:
    assert len(set(reasons.RESUME_REASON.values())) == len(reasons.RESUME_REASON)


def test_every_condition_of_a_kind_has_reasons() -> None:
    used = {
        *reasons.AGENT_PROFILE_CONDITIONS,
        *reasons.TASK_CONDITIONS,
        *reasons.SESSION_CONDITIONS,
        *reasons.EXECUTOR_CONDITIONS,
    }
    assert used == reasons.BY_CONDITION.keys() == reasons.SPEAKS.keys()


@pytest.mark.parametrize(
    ("condition", "reason", "expected"),
    [
        ("ExecutorReady", "OOMKilled", True),
        ("Stalled", "InvalidTemplate", True),
        ("Ready", "AgentExited", True),
        ("Resumable", "OOMKilled", False),
        ("Ready", "Whatever", False),
        ("Nothing", "Idle", False),
    ],
)
def test_who_may_say_what(condition: str, reason: str, expected: bool) -> None:
    assert reasons.is_documented(condition, reason) is expected


@pytest.mark.parametrize("words", enums, ids=lambda each: each.__name__)
def test_every_reason_is_in_the_manual(words: type[Word]) -> None:
    manual = README.read_text("utf-8")
    for word in words:
        assert f"| `{word}` | {word.doc} |" in manual


@pytest.mark.parametrize(
    "words",
    [
        executor.ExecutorState,
        executor.Runtime,
        profile.PermissionPolicy,
        session.OperatingMode,
        session.ResumeFailure,
        session.ResumePolicy,
        session.SessionState,
        session.WorkspacePolicy,
        task.TaskState,
    ],
    ids=lambda each: each.__name__,
)
def test_every_state_and_mode_is_explained_where_users_look(words: type[Word]) -> None:
    told = " ".join(" ".join(crd.files().values()).split()).replace("''", "'")
    manual = README.read_text("utf-8")
    for word in words:
        assert f"`{word}`" in manual
        assert f"`{word}`: {word.doc}" in told
