"""What of TLS the release images hold."""

import pytest

from firmware.image import link_bios, link_direct
from firmware.tls.begin import tls_begin
from firmware.x509.step import x509_chain_step


@pytest.mark.parametrize("link", [link_bios, link_direct])
def test_no_image_begins_a_handshake_that_judges_no_certificate(link):
    names = {placed.name for placed in link()[0].routines()}
    assert "tls_readable" in names, "this test looks at the wrong names"
    assert tls_begin.name not in names or x509_chain_step.name in names
