"""The section `[tls]`: who may vouch for the gateway."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from toolchain.config.section import Section
from toolchain.trust import TrustError, choose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TlsConfig(Section):
    """`[tls]`: the anchors that go into the image; without TLS there are none."""

    anchors: Literal["web", "all", "none"] = Field(
        "web", description='"web", "all" or "none": how much of certifi is trusted'
    )
    extra_anchors: list[str] = Field(
        [], description='PEM files with certificates of CAs, such as ["ca.pem"]'
    )

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
