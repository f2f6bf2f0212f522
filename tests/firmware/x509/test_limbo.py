"""x509-limbo's server cases: every verdict is theirs, or stands in the table of docs/x509.md."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.chains import REGIONS, store_of
from tests.support.lab import Lab
from tests.support.signatures import SIGNED_ROUTINES, SignedBench
from toolchain.trust import TrustError, read_anchor, read_pem

BESIDE = Path(__file__).parents[3].parent / "shared" / "vectors"
CASES = Path(os.environ.get("SHARDFW_VECTORS", BESIDE)) / "x509-limbo" / "core.json"
DOC = Path(__file__).parents[3] / "firmware/docs/x509.md"
ROW = re.compile(r"^\| `([\w:.-]+)` \| (accepted|refused) \| (.+) \|$", re.MULTILINE)
WHEN = datetime(2026, 6, 1, tzinfo=UTC)
BENCH = SignedBench(Lab(*SIGNED_ROUTINES, slots=0, extra=REGIONS, semantics=False), node=True)


def der(text):
    return read_pem(text.encode(), "limbo")[0]


def judge(case):
    """Return why a case is refused here; "none" when it is accepted."""
    BENCH.fresh()
    anchors, reason = [], ""
    for text in case["trusted_certs"]:
        try:
            anchors.append(read_anchor(der(text)))
        except TrustError as problem:
            reason = str(problem)
    if not anchors:
        return f"the build refuses the anchor: {reason}"
    when = datetime.fromisoformat(case["validation_time"] or WHEN.isoformat())
    chain = [case["peer_certificate"], *case["untrusted_intermediates"]]
    return BENCH.judge(
        [der(text) for text in chain],
        store_of(*anchors),
        host=case["expected_peer_name"]["value"],
        now=int(when.timestamp()),
    ).reason


@pytest.mark.vectors
@pytest.mark.skipif(
    not CASES.is_file(),
    reason="x509-limbo's cases are missing: put them into ../shared/vectors/x509-limbo/core.json "
    "or name the folder above in SHARDFW_VECTORS",
)
def test_every_case_is_judged_as_expected_or_explained():
    cases = json.loads(CASES.read_text(encoding="utf-8"))["testcases"]
    verdicts = {case["id"]: judge(case) for case in cases}
    differ = {
        case["id"]: "accepted" if verdicts[case["id"]] == "none" else "refused"
        for case in cases
        if (verdicts[case["id"]] == "none") != (case["expected_result"] == "SUCCESS")
    }
    explained = {name: verdict for name, verdict, _ in ROW.findall(DOC.read_text("utf-8"))}
    assert len(cases) >= 126
    assert differ == explained, {name: verdicts[name] for name in differ}
