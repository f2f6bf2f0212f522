"""How large the image is, and how fast it is there."""

import os

import pytest

from tests.support.bench import REPEATS, shardfw_json, spread

pytestmark = pytest.mark.bench


def test_image_size(figure, tmp_path):
    report = shardfw_json("build", "--json", "-o", str(tmp_path))
    parts = ", ".join(f"{name} {size:,}" for name, size in report["sections"].items())
    value = f"{report['image_bytes']:,} bytes; sections {parts} (.bss is not in the file)"
    figure("boot image", value, "shardfw build")
    stack = f"{report['stack_bytes']:,} of {report['stack_limit_bytes']:,} bytes"
    figure("deepest stack, computed", stack, "shardfw build")


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("boot ROM (PXE)", ()),
        ("boot ROM (PXE), without TLS", ("--no-tls",)),
        ("direct start", ("--direct",)),
        ("direct start, without TLS", ("--direct", "--no-tls")),
    ],
)
def test_boot_to_ready(figure, path, options):
    arguments = ("run", *options, "--until-ready", "--json")
    name = ("--name", f"bench-{os.getpid()}")
    shardfw_json(*arguments, *name)  # links and keeps the image, so that no run waits for it
    reports = [shardfw_json(*arguments, *name) for _ in range(REPEATS)]
    for key, what in (
        ("nbp_to_ready_ms", "first instruction"),
        ("power_on_to_ready_ms", "power-on"),
    ):
        value = spread([report[key] for report in reports], "ms")
        figure(f"{what} to 16 READY, {path}", value, f"shardfw {' '.join(arguments)}")
