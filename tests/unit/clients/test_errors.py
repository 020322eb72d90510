"""The tree of errors: drawn as it is, bounded, and fit for a condition."""

import inspect

from kandev_operator.clients import errors


def test_the_drawing_names_every_error_and_no_other() -> None:
    drawn = {
        word
        for line in (errors.__doc__ or "").splitlines()
        if "─" in line
        for word in line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()[:1]
    }
    defined = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.ClientError) and not name.startswith("_")
    }
    assert drawn | {"ClientError"} == defined


def test_texts_are_bounded() -> None:
    error = errors.Unavailable("get pods a/b", "x" * 100_000)
    assert len(str(error)) < errors.MAX_MESSAGE_CHARS + 100
    assert str(error).endswith("…")
    assert len(str(errors.Unreachable("GET /health", "y" * 100_000))) < 2_100


def test_every_kube_error_has_an_outcome_of_its_own() -> None:
    kinds = errors.KubeError.__subclasses__()
    assert len({kind.outcome for kind in kinds}) == len(kinds)
