"""What git prints, read piece by piece; what a repository configures, switched off. Pure rooms."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.agentctl.git import guard, history, words
from kandev_operator.agentctl.git.diffs import DiffReader
from kandev_operator.agentctl.git.environment import environment
from kandev_operator.agentctl.git.quoting import prefixed, unquoted
from kandev_operator.agentctl.git.statuses import StatusReader, Unreadable
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import Change

SHA = "a" * 40
STATUS = (
    f"# branch.oid {SHA}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -3\0"
    f"1 M. N... 100644 100644 100644 {SHA} {SHA} a name\0"
    f"1 .D S..U 160000 160000 000000 {SHA} {SHA} sub\0"
    f"2 R. N... 100644 100644 100644 {SHA} {SHA} R90 new\0old\0"
    f"u UU N... 100644 100644 100644 100644 {SHA} {SHA} {SHA} both\0"
    "? b\nc\0"
).encode() + b"? \xff\0"


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(cuts=st.lists(st.integers(0, 10_000), max_size=20))
def test_a_status_is_read_alike_however_it_is_cut(cuts: list[int]) -> None:
    reader = StatusReader(limit=100)
    for piece in pieces(STATUS, cuts):
        reader.feed(piece)
    assert (reader.head, reader.branch, reader.upstream) == (SHA, "main", "origin/main")
    assert (reader.ahead, reader.behind) == (2, 3)
    found = {e.path: (e.index, e.worktree, e.old_path, e.submodule) for e in reader.entries}
    assert found == {
        "a name": (Change.MODIFIED, None, None, False),
        "sub": (None, Change.DELETED, None, True),
        "new": (Change.RENAMED, None, "old", False),
        "both": (Change.UNMERGED, Change.UNMERGED, None, False),
        "b\nc": (None, Change.UNTRACKED, None, False),
        "%FF": (None, Change.UNTRACKED, None, False),
    }
    assert reader.counts.model_dump() == {"staged": 2, "unstaged": 1, "untracked": 2, "unmerged": 1}


def test_a_status_keeps_no_more_than_the_limit_and_counts_all() -> None:
    reader = StatusReader(limit=2)
    for number in range(10_000):
        reader.feed(f"? {number}\0".encode())
    assert (len(reader.entries), reader.total, reader.untracked) == (2, 10_000, 10_000)


@pytest.mark.parametrize("record", [b"9 what\0", b"1 M\0", b"1 M. N... 1\0"])
def test_another_format_is_not_guessed_at(record: bytes) -> None:
    with pytest.raises(Unreadable):
        StatusReader(limit=1).feed(record)


DIFF = (
    f":100644 100644 {SHA} {SHA} M\tplain\n"
    f':100644 100644 {SHA} {SHA} R050\told\t"n\\303\\251\\tw"\n'
    f":000000 000000 {SHA} {SHA} U\tboth\n"
    f":100644 100644 {SHA} {SHA} M\tbin\n"
    "1\t1\tplain\n2\t0\told => new\n0\t0\tboth\n-\t-\tbin\n"
    "\n"
    "diff --git a/plain b/plain\n--- a/plain\n+++ b/plain\n@@ -1 +1 @@\n"
    "-diff --git a/bin b/bin\n+b\n"
    'diff --git a/old "b/n\\303\\251\\tw"\n@@ -1 +1,2 @@\n+x\n+y\n'
    "* Unmerged path both\n"
    "diff --git a/bin b/bin\nBinary files differ\n"
).encode()


@given(cuts=st.lists(st.integers(0, 10_000), max_size=20))
def test_a_diff_is_read_alike_however_it_is_cut(cuts: list[int]) -> None:
    reader = DiffReader(100_000)
    for piece in pieces(DIFF, cuts):
        reader.feed(piece)
    reader.end()
    plain, renamed, both, binary = reader.files()
    assert (plain.path, plain.additions, plain.deletions) == ("plain", 1, 1)
    assert plain.patch is not None
    assert plain.patch.endswith("-diff --git a/bin b/bin\n+b\n")
    assert (renamed.path, renamed.old_path, renamed.additions) == ("né\tw", "old", 2)
    assert renamed.patch is not None
    assert renamed.patch.endswith("+x\n+y\n")
    assert (both.change, both.omitted, both.patch) == (Change.UNMERGED, "unmerged", None)
    assert (binary.binary, binary.omitted, binary.patch) == (True, "binary", None)


def test_a_line_without_an_end_does_not_grow_what_is_kept() -> None:
    reader = DiffReader(10_000)
    reader.feed(f":100644 100644 {SHA} {SHA} M\tlong\n1\t0\tlong\n\n".encode())
    reader.feed(b"diff --git a/long b/long\n+")
    for _ in range(1000):
        reader.feed(b"x" * 10_000)
    assert reader.is_full
    reader.end()
    [file] = reader.files()
    assert file.omitted == "limit"
    assert len(file.patch or "") <= 10_000


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name)


def quoted(name: bytes) -> bytes:
    """As git writes it."""
    letters = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    out = ""
    for byte in name:
        if byte in letters:
            out += "\\" + letters[byte]
        else:
            out += chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
    return f'"{out}"'.encode() if out.encode() != name else name


@given(name=NAMES)
def test_quoted_names_are_read_back(name: bytes) -> None:
    assert unquoted(quoted(name)) == name
    assert unquoted(prefixed(b"a/", quoted(name))) == b"a/" + name


@given(texts=st.lists(st.text(st.characters(exclude_characters="\0"), max_size=5), max_size=60))
def test_a_log_of_anything_is_read(texts: list[str]) -> None:
    size = len(history.LOG_FIELDS)
    out = "".join(text + "\0" for text in texts).encode("utf-8", "replace")
    assert len(history.commits(out)) == len(texts) // size


# ---- what may not run ------------------------------------------------------------------


def listed(*settings: tuple[str, str, str]) -> tuple[guard.Setting, ...]:
    out = "".join(f"{scope}\0{key}\n{value}\0" for scope, key, value in settings)
    return guard.listing(out.encode())


def test_programs_that_the_repository_names_are_switched_off_by_name() -> None:
    found = listed(
        ("local", "filter.a.b.clean", "evil"),
        ("worktree", "filter.w.process", "evil"),
        ("local", "merge.m.driver", "evil %A"),
        ("local", "remote.o.uploadpack", "evil"),
        ("local", "core.alternaterefscommand", "evil"),
    )
    off = dict(guard.overrides(found))
    assert off == {
        "filter.a.b.clean": "",
        "filter.a.b.required": "false",
        "filter.w.process": "",
        "filter.w.required": "false",
        "merge.m.driver": "false",
        "remote.o.uploadpack": "git-upload-pack",
        "core.alternaterefscommand": "true",
    }


def test_what_the_person_configured_stays() -> None:
    found = listed(
        ("global", "filter.mine.clean", "mine"),
        ("system", "merge.m.driver", "theirs"),
        ("local", "filter.lfs.clean", "git-lfs clean -- %f"),
        ("local", "filter.lfs.process", "git-lfs filter-process"),
        ("global", "core.sshcommand", "ssh -i mine"),
        ("local", "core.sshcommand", "evil"),
    )
    assert guard.overrides(found) == ()
    assert guard.ssh_command(found) == "ssh -i mine"
    almost = listed(("local", "filter.lfs.clean", "git-lfs clean -- %f; evil"))
    assert guard.overrides(almost) != ()


def test_credential_helpers_of_the_repository_are_not_asked() -> None:
    found = listed(
        ("system", "credential.helper", "machine"),
        ("global", "credential.https://x.helper", "mine"),
        ("local", "credential.helper", "evil"),
    )
    assert guard.helpers(found) == (
        ("credential.helper", ""),
        ("credential.helper", "machine"),
        ("credential.https://x.helper", "mine"),
    )


@pytest.mark.parametrize(
    "key",
    ["http.proxy", "http.https://x.sslverify", "url.https://evil/.insteadof", "remote.o.proxy"],
)
def test_where_a_credential_would_travel_is_not_the_repositorys_to_say(key: str) -> None:
    assert guard.redirects(listed(("local", key, "x"))) == (key,)
    assert guard.redirects(listed(("global", key, "x"))) == ()


def test_the_environment_is_made_from_nothing() -> None:
    own = {"PATH": "/bin", "HOME": "/h", "GIT_DIR": "/x", "KANDEV_STATE": "/s", "LD_PRELOAD": "x"}
    made = environment(own, "/srv/space")
    assert (made["PATH"], made["HOME"]) == ("/bin", "/h")
    assert not {"GIT_DIR", "KANDEV_STATE", "LD_PRELOAD"} & set(made)
    assert made["GIT_CEILING_DIRECTORIES"] == "/srv"
    assert made["GIT_OPTIONAL_LOCKS"] == "0"
    settings = {
        made[f"GIT_CONFIG_KEY_{number}"]: made[f"GIT_CONFIG_VALUE_{number}"]
        for number in range(int(made["GIT_CONFIG_COUNT"]))
    }
    assert settings["core.hooksPath"] == "/dev/null"
    assert settings["safe.directory"] == "/srv/space"


# ---- git's words -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            "not_a_repository",
        ),
        ("fatal: Unable to create '/x/.git/index.lock': File exists.", "git_locked"),
        ("fatal: Authentication failed for 'https://x/'", "git_auth_failed"),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "git_unreachable"),
        (
            "fatal: unable to access 'https://x/': The requested URL returned error: 403",
            "git_auth_failed",
        ),
        ("fatal: Not possible to fast-forward, aborting.", "git_diverged"),
        ("error: No space left on device", "disk_full"),
        ("fatal: something new", "git_failed"),
    ],
)
def test_words_have_codes(said: str, code: str) -> None:
    assert words.code_of(said) == Code(code)


def test_secrets_are_taken_out_of_gits_words() -> None:
    said = b"fatal: https://ann:pass-word@x/ and ssh://tok@y: Authorization: Basic YWJj\nnamed-one"
    told = words.refusal(said, lambda text: text.replace("named-one", "[redacted]"))
    everything = told.message + str(told.details)
    for secret in ("pass-word", "tok@", "YWJj", "named-one"):
        assert secret not in everything
