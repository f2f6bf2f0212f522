"""Every reason to refuse a certificate is a failure of the connection with an alert of its own."""

from firmware.errors import SITES, Layer
from firmware.layouts.tls_sites import REFUSALS
from firmware.layouts.x509 import VERDICTS, X509_VERDICTS


def test_every_reason_has_a_verdict_and_every_verdict_an_alert():
    assert set(VERDICTS) == {site for site in SITES.values() if site.layer is Layer.X509}
    for verdict in VERDICTS.values():
        refusal = REFUSALS[verdict]
        assert refusal.alert is not None
        assert refusal.wait_s >= 60, "the same certificate would come again at once"


def test_the_table_on_the_node_has_every_reason_at_its_number():
    table = X509_VERDICTS.init or b""
    assert len(table) == len(VERDICTS) + 1
    for reason, verdict in VERDICTS.items():
        assert table[reason.number] == verdict.number
