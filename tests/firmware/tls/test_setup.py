"""What a node makes for its handshakes at boot."""

import pytest

import emulator.models.tls.setup as models
from emulator.memory import Region
from emulator.models.crypto.variants import variant
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL
from firmware.layouts.trust import TRUST_STORE
from firmware.layouts.variants import VARIANTS, Variants
from firmware.limits import ARENA_STRIDE, PAGE, WINDOW_ARENAS
from firmware.tls.pool import tls_arenas_make
from firmware.tls.setup import tls_setup
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region, walk
from tests.support.token import set_token
from toolchain.asm import Asm, routine

PAGES = TlsArena.SIZE // PAGE


@routine(writes=[Variants.usable], source="this test")
def crypto_begin(a: Asm) -> None:
    """Stand for what has tests of its own, and takes millions of instructions."""
    a.mov(VARIANTS.it.usable, 1)
    a.ret()


LAB = Lab(
    tls_arenas_make, tls_setup, slots=1, semantics=False, replaced=(crypto_begin,),
    extra=[
        tables_region(),
        *(
            Region(f"arena{n}", WINDOW_ARENAS + n * ARENA_STRIDE, TlsArena.SIZE)
            for n in range(ARENAS_MAX)
        ),
    ],
)  # fmt: skip


def _begin(w):
    w.g(VARIANTS).usable = 1


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(models, "crypto_begin", variant("crypto_begin", _begin))
    LAB.reset()


def addresses():
    return [LAB.g(TLS_POOL).slots[n].address for n in range(ARENAS_MAX)]


@pytest.mark.parametrize("made", range(ARENAS_MAX + 1))
def test_as_many_arenas_as_there_is_memory_for(made):
    ready(LAB, (0x10_0000, 0x10_0000 + (made * PAGES + PAGES - 1) * PAGE))
    assert LAB.call(tls_arenas_make).outputs["eax"] == made
    wanted = [WINDOW_ARENAS + n * ARENA_STRIDE for n in range(made)]
    assert addresses() == wanted + [0] * (ARENAS_MAX - made)
    for arena in wanted:
        assert all(walk(LAB, arena + n * PAGE) for n in range(PAGES))
        assert not walk(LAB, arena + PAGES * PAGE)


def test_a_node_without_tls_makes_nothing():
    ready(LAB, (0x10_0000, 0x80_0000))
    LAB.call(tls_setup)
    assert addresses() == [0] * ARENAS_MAX
    assert LAB.g(TLS_POOL).trust == 0
    assert LAB.g(VARIANTS).usable == 0


@pytest.mark.parametrize(("fleet", "token", "chosen"), [
    (True, b"", 1), (True, b"MTk4.a-token", 0), (False, b"", 0),
])  # fmt: skip
def test_a_node_that_has_to_enrol_tries_the_cryptography_without_tls(fleet, token, chosen):
    ready(LAB, (0x10_0000, 0x80_0000))
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC if fleet else 0
    set_token(LAB, token)
    LAB.call(tls_setup)
    assert LAB.g(VARIANTS).usable == chosen
    assert addresses() == [0] * ARENAS_MAX
    assert LAB.g(TLS_POOL).trust == 0


def test_a_node_with_tls_has_arenas_and_anchors_and_says_so():
    ready(LAB, (0x10_0000, 0x80_0000))
    LAB.g(CONFIG).gateway_secure = 1
    store = LAB.g(TRUST_STORE)
    store.count = 26
    LAB.call(tls_setup)
    assert addresses()[-1] == WINDOW_ARENAS + (ARENAS_MAX - 1) * ARENA_STRIDE
    assert LAB.g(TLS_POOL).trust == store.address_
    assert LAB.g(VARIANTS).usable == 1
