"""Helm without a cluster."""

from pathlib import Path

import pytest

from cluster.helm import Helm
from stage.rendered import Rendered, render


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def by_default(helm: Helm) -> Rendered:
    """The chart with no values of one's own."""
    return render(helm)
