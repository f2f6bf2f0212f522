"""What holds for every test: the same examples everywhere, and no verdict from a busy machine."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.interrupts import hear_interrupts

# Many tests end a program as Ctrl-C does.
hear_interrupts()

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
    """Leave out what takes real minutes unless it is asked for: `make soak`, `make bench`."""
    left = set()
    if "SHARDFW_SOAK_SECONDS" not in os.environ:
        left.add("soak")
    if "bench" not in config.option.markexpr:
        left.add("bench")
    out = [item for item in items if any(map(item.get_closest_marker, left))]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
