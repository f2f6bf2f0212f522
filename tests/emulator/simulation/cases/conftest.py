"""The maker of cases; each one ends with the question whether the siblings noticed anything."""

from __future__ import annotations

import pytest

from firmware.layouts.profile import ProfileId
from tests.support.cases import RESUME_ADDRESS, RESUME_HOST, Case, path_of


@pytest.fixture
def case_of(rig_of, facts):
    """Return the maker; `noticed` says that the siblings are part of the case."""
    quiet = []

    def make(
        profile=ProfileId.DISCORD,
        *,
        shards=2,
        seed=1,
        config=None,
        noticed=False,
        resume_host=False,
        ready=True,
        **options,
    ):
        node = facts(
            **({"shards": shards, "profile": profile, "path": path_of(profile)} | (config or {}))
        )
        if resume_host:
            options["public_url"] = f"ws://{RESUME_HOST}"
        case = Case(rig_of(seed, node, **options))
        if resume_host:
            case.rig.internet.gateway(RESUME_HOST, RESUME_ADDRESS, sessions_of="gateway.test")
        if ready:
            case.until_ready(20)
        if not noticed:
            quiet.append(case)
        return case

    yield make
    for case in quiet:
        case.unnoticed()


@pytest.fixture(params=list(ProfileId), ids=lambda p: p.name.lower())
def profile(request):
    """Both services, one after the other."""
    return request.param
