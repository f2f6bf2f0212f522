"""A text as node.toml, loaded or refused; `Load` and `Fail` are the types of both fixtures."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.node_toml import Fail, Load
from toolchain.config import ConfigError, NodeConfig, load_config


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a text as node.toml, so that messages begin with that name."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, environ: Mapping[str, str] = {}, **overrides: object) -> NodeConfig:
        Path("node.toml").write_text(text)
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        return load_config(Path("node.toml"), environ, dotted)

    return run


@pytest.fixture
def fail(load: Load) -> Fail:
    """Return the lines of the refusal of a text."""

    def run(text: str, environ: Mapping[str, str] = {}, **overrides: object) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, environ, **overrides)
        return str(caught.value).splitlines()

    return run
