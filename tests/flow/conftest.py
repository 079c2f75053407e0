"""The stores under test, as the stores' own tests have them, with the scheduler's verbs."""

import pytest

from tests.stores.conftest import conformance_url, rig
from tests.stores.rig import Rig
from tests.support.runtime import Runtime

__all__ = ["conformance_url", "rig"]


@pytest.fixture
def runtime(rig: Rig) -> Runtime:  # the fixture of that name
    return Runtime(rig)
