"""Trust anchors as the bytes that the node looks them up in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from firmware.layouts.trust import (
    EMPTY_STORE,
    TRUST_MAGIC,
    TRUST_VERSION_BYTES,
    TrustEntry,
    TrustRecord,
    TrustStore,
    name_hash,
)
from firmware.layouts.x509 import PATH_ANY
from toolchain.config.tls import parse_pin
from toolchain.layout.pack import pack
from toolchain.trust import TrustError, choose

if TYPE_CHECKING:
    from datetime import datetime

    from toolchain.config import NodeConfig
    from toolchain.trust import Anchor, Trust

ALIGN = 8


def _record(anchor: Anchor) -> bytes:
    """Return one record with what stands behind it."""
    length = PATH_ANY if anchor.path_length is None else anchor.path_length
    head = pack(
        TrustRecord,
        {
            "not_after": int(anchor.not_after.timestamp()) % 2**64,
            "subject_len": len(anchor.subject),
            "spki_len": len(anchor.spki),
            "constraints_len": len(anchor.constraints),
            "path_length": length,
        },
    )
    whole = head + anchor.subject + anchor.spki + anchor.constraints
    return whole + bytes(-len(whole) % ALIGN)


def trust_store(trust: Trust) -> bytes:
    """Return the store: head, index in the order of the hashes, records, pins."""
    anchors = sorted(trust.anchors, key=lambda a: (name_hash(a.subject), a.spki))
    offset = TrustStore.SIZE + len(anchors) * TrustEntry.SIZE
    entries, records = b"", b""
    for anchor in anchors:
        place = offset + len(records)
        entries += pack(TrustEntry, {"hash": name_hash(anchor.subject), "offset": place})
        records += _record(anchor)
    pins = b"".join(trust.pins)
    head = pack(
        TrustStore,
        {
            "magic": TRUST_MAGIC,
            "count": len(anchors),
            "size": offset + len(records) + len(pins),
            "pins": len(trust.pins),
            "version": trust.version.encode()[:TRUST_VERSION_BYTES],
            "digest": trust.digest,
        },
    )
    return head + entries + records + pins


def trust_of(config: NodeConfig, today: datetime) -> Trust | None:
    """Return the anchors of a configuration; None when its gateway is reached without TLS.

    Raises:
        click.ClickException: A file holds no anchor, or one that does not count any more.
    """
    if not config.gateway.endpoint.secure:
        return None
    try:
        trust = choose(config.tls.anchors, config.extra_anchors, today)
    except TrustError as error:
        raise click.ClickException(str(error)) from error
    return replace(trust, pins=tuple(map(parse_pin, config.tls.pins)))


def labels_of(trust: Trust | None) -> dict[int, str]:
    """Return what people call the anchors, by what a node calls them: the hash of the name."""
    anchors = () if trust is None else trust.anchors
    return {name_hash(anchor.subject): anchor.label for anchor in anchors}


def store_of(trust: Trust | None) -> bytes:
    """Return the trust store of an image; an empty one for None."""
    return EMPTY_STORE if trust is None else trust_store(trust)
