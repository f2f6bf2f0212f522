"""What holds for every test: the same examples everywhere, and no verdict from a busy machine."""

import os

import pytest
from hypothesis import HealthCheck, settings

# One seed per test: `make test` says the same here and in CI. `make explore` draws new examples.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("fixed"), derandomize=False)
settings.load_profile("fixed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the soak, which takes real minutes, unless `make soak` names its length."""
    if "SHARDFW_SOAK_SECONDS" in os.environ:
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if item not in soak]
