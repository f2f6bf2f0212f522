"""The parser routines under fuzzing, each in a machine of its own: certificates here, and a list of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from emulator.fuzz.engine import BrokenRuleError, Target
from firmware.layouts.bus import LinkState
from firmware.layouts.x509 import Certificate
from firmware.layouts.x509_chain import KNOWN_CHAINS, Chain, ChainState
from firmware.x509.certificate import x509_parse
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from tests.fuzz import corpus
from tests.fuzz.bus import link
from tests.fuzz.enrol import grant, table
from tests.fuzz.handshake import WAITING, connected, flight, messages, records, sealed
from tests.fuzz.watched import STEPS_MAX, watched
from tests.support.chains import CHAIN, REGIONS, STORE, listed, store_of
from tests.support.lab import INPUT, INPUT_BYTES, Lab
from tests.support.tls import DATE, NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.memory import Region


def _laid_down(lab: Lab, data: bytes, call: Callable[[int], object]) -> None:
    """Give code an input behind which nothing is mapped; it must be the same afterwards."""
    at = lab.put(data)
    call(at)
    if data and lab.machine.read(at, len(data)) != data:
        raise BrokenRuleError("the input itself was changed")


def _regions() -> list[Region]:
    """Return memory for a chain and its anchors that no other target has."""
    return [replace(region) for region in REGIONS]


# -- certificates ---------------------------------------------------------------------------------
def certificate() -> Target:
    """One certificate."""
    lab = Lab(x509_parse, slots=0, semantics=False, extra=_regions())
    lab.reset()
    watch = watched(lab)

    def run(data: bytes) -> None:
        def parse(at: int) -> None:
            lab.free(x509_parse, encoded=at, length=len(data), certificate=CHAIN)
            _slices_lie_within(lab, at, len(data))

        _laid_down(lab, data, parse)

    places = [(CHAIN, Certificate.SIZE), (INPUT, INPUT_BYTES)]
    seeds = corpus.certificates()
    return Target("certificate", lab.machine, run, seeds, watch, places, 4096)


def _slices_lie_within(lab: Lab, at: int, length: int) -> None:
    """A certificate that counts is described by pieces of itself."""
    found = lab.view(Certificate, CHAIN)
    if found.error:
        return
    for name in ("tbs", "signature", "subject", "issuer"):
        piece = getattr(found, name)
        if not at <= piece.start <= piece.start + piece.size <= at + length:
            raise BrokenRuleError(f"Certificate.{name} lies outside of the certificate")


def chain() -> Target:
    """A certificate list, and the search for a path; every signature counts as good."""
    lab = Lab(x509_chain_begin, x509_chain_step, slots=0, semantics=False, extra=_regions())
    lab.reset()
    lab.g(KNOWN_CHAINS).wipe()
    lab.machine.write(STORE, store_of(corpus.root()))
    name = lab.machine.alloc(len(NAME))
    lab.machine.write(name, NAME)
    view = lab.view(Chain, CHAIN)
    view.now, view.store, view.host, view.host_len = DATE, STORE, name, len(NAME)
    watch = watched(lab)

    def run(data: bytes) -> None:
        def judge(at: int) -> None:
            lab.free(x509_chain_begin, chain=CHAIN, listed=at, length=len(data))
            for _ in range(STEPS_MAX):
                if view.state not in {ChainState.SEARCH, ChainState.VERIFY}:
                    break
                lab.free(x509_chain_step, chain=CHAIN, good=1)
            else:
                raise BrokenRuleError(f"the search is not over after {STEPS_MAX} steps")
            # A path that was found may have had others before it, with a reason against them.
            if view.state != ChainState.DONE and not view.error:
                raise BrokenRuleError(f"state {view.state} without a reason")

        _laid_down(lab, data, judge)

    size = KNOWN_CHAINS.struct.SIZE
    places = [(CHAIN, Chain.SIZE), (INPUT, INPUT_BYTES), (lab.image.address(KNOWN_CHAINS), size)]
    seeds = [listed(*corpus.chain()), listed(*corpus.chain(), corpus.root())]
    seeds.append(listed(*corpus.chain()[::-1]))
    return Target("chain", lab.machine, run, seeds, watch, places, INPUT_BYTES)


TARGETS: dict[str, Callable[[], Target]] = {
    "certificate": certificate,
    "chain": chain,
    **{
        f"message-{state.name.removeprefix('WAIT_').lower()}": (
            lambda state=state: messages(state)  # type: ignore[misc]
        )
        for state in sorted(WAITING)
    },
    "records-plain": records,
    "records-flight": flight,
    "records-sealed": sealed,
    "records-raw": connected,
    "bus-info": lambda: link(LinkState.INFO),
    "bus-up": lambda: link(LinkState.UP),
    "smbios": table,
    "grant": grant,
}
"""How each is made, by name."""
