"""Certificates that went through the parser, and the reason when one was refused."""

from typing import Any

from firmware.errors import describe
from firmware.layouts.x509 import Certificate
from firmware.x509.certificate import x509_extension, x509_parse, x509_same
from firmware.x509.key import x509_key
from tests.support import certificates as c
from tests.support.lab import Lab

LAB = Lab(x509_parse, x509_extension, x509_same, x509_key, slots=0)
QUICK = Lab(x509_parse, slots=0, semantics=False)


class Parsed:
    """A certificate that went through the parser.

    Args:
        encoded: the certificate.
        first: nothing is mapped before it, instead of behind it.
        lab: where it is parsed.
    """

    def __init__(self, encoded: bytes, *, first: bool = False, lab: Lab = LAB) -> None:
        lab.reset()
        self.lab, self.at = lab, lab.machine.alloc(Certificate.SIZE)
        start = lab.put(encoded, first=first)
        given = {"encoded": start, "length": len(encoded), "certificate": self.at}
        self.error = lab.call(x509_parse, **given).outputs["eax"]
        self.view = lab.view(Certificate, self.at)
        assert self.view.error == self.error

    def slice(self, name: str) -> bytes:
        """Return the bytes of a slice by its name."""
        found = getattr(self.view, name)
        return self.lab.machine.read(found.start, found.size)


def reason(fields: c.Fields | bytes) -> str:
    """Return why the parser refuses a certificate, or `none`."""
    encoded = fields.encode() if isinstance(fields, c.Fields) else fields
    return describe(Parsed(encoded, lab=QUICK).error)


def with_extensions(*extensions: bytes, **fields: Any) -> c.Fields:
    """Return a certificate that has these extensions."""
    return c.Fields(extensions=list(extensions), **fields)
