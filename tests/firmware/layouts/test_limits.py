"""Bounds that the configuration and the firmware both know, and may not know differently."""

from firmware.layouts.permit import PERMITS_MAX
from firmware.limits import SHARDS_MAX
from toolchain.config.schema import MAX_CONCURRENCY, MAX_LOCAL_SHARDS


def test_the_configuration_admits_what_the_tables_hold():
    assert MAX_LOCAL_SHARDS == SHARDS_MAX
    assert MAX_CONCURRENCY == PERMITS_MAX
