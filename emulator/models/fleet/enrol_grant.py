"""What is released to a node."""

from emulator.effects import World, model
from emulator.models.crypto.hpke import hpke_open
from emulator.models.log import log_write
from firmware.layouts.bus import BUS, BUS_IN
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.enrol import (
    ENROL,
    ENROL_GRANT,
    ENROL_LENGTH,
    ENROL_LOGIN,
    ENROL_SEAL,
    ENROL_TOKEN,
    GRANT_MAGIC,
    SEALED_BYTES,
    EnrolState,
    Grant,
)
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.hpke import HPKE_ENC_BYTES
from firmware.layouts.log import ENROL_DONE, ENROL_REFUSED
from firmware.layouts.token import TOKEN
from firmware.limits import TOKEN_MAX


@model
def enrol_refuse(w: World, error: int) -> None:
    """Told when the count is a power of two."""
    state = w.g(ENROL)
    state.error = error
    state.refused += 1
    if state.refused.bit_count() <= 1:
        log_write(w, 0, ENROL_REFUSED, error >> 16 & 0xFF, state.refused, 0, 0)


@model
def grant_judge(w: World, grant: int) -> int:
    """Magic, a token of 1 to 256 bytes, a login that is known."""
    found = w.view(Grant, grant)
    if found.magic != GRANT_MAGIC:
        return ENROL_GRANT.code
    if not 1 <= found.token_len <= TOKEN_MAX:
        return ENROL_TOKEN.code | min(int(found.token_len), 0xFFFF)
    login = found.login
    if login.auth > max(BusAuth) or login.user_len > 64 or login.password_len > 64:
        return ENROL_LOGIN.code
    return 0


@model
def enrol_take(w: World) -> None:
    """Only what opens and is in bounds changes anything but the counters."""
    state, token = w.g(ENROL), w.g(TOKEN)
    state.sealed[:] = w.read(w.g(BUS_IN).body, SEALED_BYTES)
    sealed, info = state.sealed.address, state.info.address
    wrong = hpke_open(w, state.keys.address_, sealed, SEALED_BYTES, info, state.info_len, info, 0)
    error = ENROL_SEAL.code if wrong else grant_judge(w, sealed + HPKE_ENC_BYTES)
    if not error:
        grant = w.view(Grant, sealed + HPKE_ENC_BYTES)
        token.length = grant.token_len
        token.text[:] = bytes(grant.token)
        state.relogin, w.g(BUS).enrolling = 1, 0
        if grant.login.auth != BusAuth.NONE:
            login = w.read(grant.login.address_, Credentials.SIZE)
            w.store(w.g(CREDENTIALS).address_, login, "the login that was released")
        state.keys.private[:] = bytes(32)
        state.state, state.announce_at = EnrolState.ENROLLED, 0
        log_write(w, 0, ENROL_DONE, state.announced, state.refused, 0, 0)
    state.sealed[:] = bytes(SEALED_BYTES)
    if error:
        enrol_refuse(w, error)


@model
def enrol_input(w: World) -> int:
    """An answer has the number of our announcements."""
    state, got = w.g(ENROL), w.g(BUS_IN)
    if not state.inbox or got.inbox != state.inbox:
        return 1
    if got.status == 503:
        state.unheard += 1
        state.here = (state.here + 1) % 2**16
    elif state.state != EnrolState.WAITING:
        state.late += 1
    elif got.body_len == SEALED_BYTES:
        enrol_take(w)
    else:
        enrol_refuse(w, ENROL_LENGTH.code | min(int(got.body_len), 0xFFFF))
    return 0
