"""Everything that can go wrong here, so that a caller catches one name.

    ControlPlaneError       the cluster did not do what was asked
    ├── BuildError          the executable could not be made
    ├── KubectlError        kubectl ended with an error
    └── Unsupported         this kind of cluster cannot do that at all

The texts are for people: what happened, what to mend, and the last words of whoever knew more.
"""


class ControlPlaneError(Exception):
    """The cluster did not do what was asked of it."""


class BuildError(ControlPlaneError):
    """Something a person must mend before the control plane can be built."""


class KubectlError(ControlPlaneError):
    """kubectl ended with an error; the text has what it wrote to standard error."""


class Unsupported(ControlPlaneError):
    """A power over the cluster's processes or data, asked of a cluster that is not ours."""
