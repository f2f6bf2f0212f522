"""Evidence is whole before anything is wiped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.errors import Layer
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import End, Phase, ShardContext
from firmware.layouts.tcp import TCP_RESET
from firmware.layouts.tls_sites import CERTIFICATE_NAME, SITES_MAX
from firmware.layouts.websocket import UPGRADE_REFUSED
from firmware.shard.evidence import copy_evidence
from tests.support.lab import Lab
from tests.support.states import DWORD, QWORD, layer_states

LAB = Lab(copy_evidence)


@settings(max_examples=60, deadline=None)
@given(
    layers=layer_states(),
    error=DWORD,
    sequence=DWORD,
    now=QWORD,
    since=QWORD,
    cycles=st.sampled_from([0, 1, 1000, 2_600_000]),
    flags=DWORD,
)
def test_copy_evidence_any_state_matches_model(layers, error, sequence, now, since, cycles, flags):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    for name, value in layers.items():
        getattr(context, name).state = value
    context.last_error, context.sequence, context.connected_at = error, sequence, since
    context.flags = flags
    context.failure, context.phase, context.peer_close = End.CLOSED, Phase.REPLAY, 4009
    LAB.g(CORE).now, LAB.g(CLOCK).tsc_cycles_per_ms = now, cycles
    LAB.call(copy_evidence, shard=shard)
    kept = context.evidence
    assert (kept.error, kept.tcp_state, kept.tls_state) == (error, layers["tcp"], layers["tls"])
    assert (kept.end, kept.phase, kept.close_code) == (End.CLOSED, Phase.REPLAY, 4009)
    assert (kept.sequence, kept.sequence_valid) == (sequence, flags & 1)


@pytest.mark.parametrize(
    ("error", "site"),
    [(CERTIFICATE_NAME.code | 0x1234, CERTIFICATE_NAME.number), (TCP_RESET.code, 0),
     (Layer.TLS << 24 | (SITES_MAX - 1) << 16, SITES_MAX - 1), (Layer.TLS << 24 | SITES_MAX << 16, 0),
     (UPGRADE_REFUSED.code | 403, 0), (0, 0)],
)  # fmt: skip
def test_copy_evidence_names_the_site_of_tls_alone(error, site):
    context = LAB.view(ShardContext, LAB.shard())
    context.last_error, context.evidence.tls_site = error, 99
    LAB.call(copy_evidence, shard=context.address_)
    assert context.evidence.tls_site == site


@settings(max_examples=30, deadline=None)
@given(contents=st.binary(min_size=256, max_size=256))
def test_copy_evidence_takes_each_field_from_its_place(contents):
    """Every byte of the shard has another value than its neighbours."""
    shard = LAB.shard()
    filler = contents * (ShardContext.SIZE // len(contents))
    LAB.machine.write(shard, filler.ljust(ShardContext.SIZE, b"\x5a"))
    LAB.g(CORE).now, LAB.g(CLOCK).tsc_cycles_per_ms = 2**63, 1000
    LAB.call(copy_evidence, shard=shard)
    context = LAB.view(ShardContext, shard)
    assert context.evidence.http_status == context.websocket.http_status


@pytest.mark.parametrize(
    ("since", "cycles", "wanted"), [(0, 1_000, 0), (1_000, 1_000, 9_000), (1_000, 0, 0)]
)
def test_copy_evidence_says_how_long_the_connection_lived(since, cycles, wanted):
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = cycles, 9_001_000
    context.connected_at = since
    LAB.call(copy_evidence, shard=shard)
    assert context.evidence.connected_ms == wanted


def test_copy_evidence_of_more_than_49_days_does_not_begin_anew():
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = 1000, 1000 * 2**32 + 5_000_000
    context.connected_at = 5
    LAB.call(copy_evidence, shard=shard)
    assert context.evidence.connected_ms == 2**32 - 1
