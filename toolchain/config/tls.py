"""The section `[tls]`: who may vouch for the gateway."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from toolchain.config.endpoint import refuse
from toolchain.config.section import Section
from toolchain.trust import TrustError, choose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIN_PREFIX = "sha256/"
PIN_BYTES = 32
PINS_MAX = 16
"""More keys than a path has; they are compared with each of its keys."""


def parse_pin(text: str) -> bytes:
    """Return the digest that a pin stands for.

    Raises:
        ValueError: It is no pin; the text says what one looks like.
    """
    try:
        digest = base64.b64decode(text.removeprefix(PIN_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if not text.startswith(PIN_PREFIX) or len(digest) != PIN_BYTES:
        raise ValueError(
            f'"{text}" is no pin. Write "{PIN_PREFIX}" and the base64 of the SHA-256 of a '
            "SubjectPublicKeyInfo, 44 characters"
        )
    return digest


class TlsConfig(Section):
    """`[tls]`: the anchors that go into the image; without TLS there are none."""

    anchors: Literal["web", "all", "none"] = Field(
        "web", description='"web", "all" or "none": how much of certifi is trusted'
    )
    extra_anchors: list[str] = Field(
        [], description='PEM files with certificates of CAs, such as ["ca.pem"]'
    )
    pins: list[str] = Field(
        [],
        max_length=PINS_MAX,
        description=f'at most {PINS_MAX} keys, such as "{PIN_PREFIX}" and 44 characters of base64',
    )

    hybrid: Literal["off", "offer", "share"] = Field(
        "off",
        description='"off", "offer" or "share": whether X25519MLKEM768 is offered, and with a key share',
    )

    @field_validator("pins")
    @classmethod
    def _are_pins(cls, value: list[str]) -> list[str]:
        try:
            digests = [parse_pin(text) for text in value]
        except ValueError as error:
            raise refuse(str(error)) from None
        if len(set(digests)) < len(digests):
            raise refuse("a pin stands twice. Write each once")
        return value

    def problems(self, *, secure: bool) -> Iterator[tuple[str, str]]:
        """Yield key and message of what does not fit the gateway.

        Args:
            secure: Whether it is reached over TLS.
        """
        if secure and self.anchors == "none" and not self.extra_anchors:
            yield (
                "anchors",
                'no server could be trusted. Write extra_anchors = ["ca.pem"] with the certificate '
                'of your CA, or anchors = "web"',
            )
        for key in () if secure else sorted(self.model_fields_set):
            yield (
                key,
                "the gateway is reached without TLS. Write a wss:// URL (with discovery an https:// "
                "one) under [gateway], or leave this key out",
            )

    def read(self, base: Path) -> tuple[tuple[str, bytes], ...]:
        """Return name and contents of the extra files, each of which holds anchors.

        Args:
            base: Where relative paths begin.

        Raises:
            ValueError: One cannot be read, or holds what cannot be an anchor.
        """
        try:
            found = [
                (path.name, path.read_bytes())
                for path in ((base / name).expanduser() for name in self.extra_anchors)
            ]
            if found:
                choose("none", found, datetime.now(UTC))
        except OSError as error:
            raise ValueError(
                f"cannot read {error.filename}: {error.strerror}. Write paths of PEM files; a "
                "relative path begins at this file"
            ) from error
        except TrustError as error:
            raise ValueError(str(error)) from error
        return tuple(found)
