"""A node whose first calibration refused: held without a clock, then everything follows from one."""

import asyncio
import re

import pytest

from firmware.image import link_direct
from tests.support.site import quiet, running
from tests.system.roles import late_clock
from toolchain.cli import images

pytestmark = pytest.mark.system
LEASE = "lease.duration_ms"


def codes(node):
    return [match[1] for line in node.lines if (match := re.search(r"code=(\S+)", line.text))]


def test_a_clock_that_comes_late_starts_every_shard(tmp_path, monkeypatch):
    replaced, _ = link_direct({"clock_setup": late_clock.clock_setup})
    template = images.template_of(replaced, release=False)
    monkeypatch.setattr(images, "cached_template", lambda _target: template)

    async def run():
        async with running(tmp_path, quiet(), {LEASE: 600_000}) as site:
            return codes(site.node), await site.shard_rows()

    seen, rows = asyncio.run(run())
    before, after = seen[: seen.index("boot.clock")], seen[seen.index("boot.clock") :]
    assert before.count("boot.no_clock") == 1
    assert not any(code.startswith(("shard.", "lease.")) for code in before)
    assert after.count("boot.clock") == 1
    assert after.count("lease.granted") == 1
    assert len(rows) == 16
    assert {row["attempts"] for row in rows} == {1}
