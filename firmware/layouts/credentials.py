"""How the node logs in to NATS: as the image says, until a grant says otherwise."""

from __future__ import annotations

from firmware.layouts.fleet_config import (
    CREDENTIAL_MAX,
    NKEY_PUBLIC_BYTES,
    NKEY_SEED_BYTES,
    BusAuth,
    FleetConfig,
)
from toolchain.layout import Global, Struct, bytes_, enum8, u8


class Credentials(Struct):
    """One login."""

    SIZE = 0xE0
    auth = enum8(0x00, BusAuth, "how the node logs in")
    user_len = u8(0x01, "bytes")
    password_len = u8(0x02, "bytes")
    user = bytes_(0x08, CREDENTIAL_MAX, "with USER", align=8)
    password = bytes_(0x48, CREDENTIAL_MAX, "with USER", align=8)
    nkey_seed = bytes_(0x88, NKEY_SEED_BYTES, "with NKEY: the Ed25519 private key", align=8)
    nkey_public = bytes_(0xA8, NKEY_PUBLIC_BYTES, "with NKEY: the public key as text", align=8)


CREDENTIALS = Global("credentials", Credentials, "how the node logs in to NATS", align=64)
SECRETS_BYTES = Credentials.SIZE - Credentials.user.offset
"""From the user's name on a login lies as it does in the configuration."""
if any(
    mine.offset - Credentials.user.offset != configured.offset - FleetConfig.user.offset
    for mine, configured in (
        (Credentials.password, FleetConfig.password),
        (Credentials.nkey_seed, FleetConfig.nkey_seed),
        (Credentials.nkey_public, FleetConfig.nkey_public),
    )
):
    raise ValueError(
        "Credentials and FleetConfig order a login differently; bus_credentials copies"
    )
