"""Token and key for commands: where they come from, and that no message repeats them."""

import re
import traceback
from pathlib import Path

import pytest

from tests.support.node_toml import Fail, Load
from toolchain.config import ConfigError, NodeConfig, load_config

# Made up, in the shape of a real one.
TOKEN = "MTk4NjIyNDgzNDcx.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"  # noqa: S105 - opens nothing

KEY = "5ca1ab1e" * 8


class TestToken:
    def test_token_from_named_variable(self, load: Load) -> None:
        config = load("[bot]\ntoken_env = 'MY_BOT'\n", {"MY_BOT": TOKEN, "SHARDFW_TOKEN": "other"})
        assert config.token.get_secret_value() == TOKEN

    def test_token_from_default_variable(self, load: Load) -> None:
        assert load("", {"SHARDFW_TOKEN": TOKEN}).token.get_secret_value() == TOKEN

    def test_token_from_file_beside_the_configuration(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "secret.txt").write_text(TOKEN + "\n")
        config = load("[bot]\ntoken_file = 'secret.txt'\n")
        assert config.token.get_secret_value() == TOKEN

    def test_token_is_never_shown(self, load: Load) -> None:
        config = load("", {"SHARDFW_TOKEN": TOKEN})
        for shown in (repr(config), str(config), f"{config.token}", repr(config.token)):
            assert TOKEN not in shown
        assert "SecretStr('**********')" in repr(config)

    @pytest.mark.parametrize(
        ("text", "environ", "message"),
        [
            (f"[bot]\ntoken = '{TOKEN}'\n", {}, "bot.token: a token does not belong in this file"),
            (f"token = '{TOKEN}'\n", {}, "token: a token does not belong in this file"),
            (f"bot = '{TOKEN}'\n", {}, "bot: this is a section. Write [bot]"),
            (
                f"[bot]\ntoken_env = '{TOKEN}'\n",
                {},
                "bot.token_env: this is not the name of an environment variable",
            ),
            (
                f"[bot]\ntoken_file = '{TOKEN}'\n",
                {},
                "bot.token_file: cannot read that file: No such",
            ),
            (f"[bot]\nintents = '{TOKEN}'\n", {}, "bot.intents: this value is not an integer"),
            (
                "[bot]\ntoken_env = 'A'\n",
                {"A": f"Bot {TOKEN}"},
                'bot.token_env: the token begins with "Bot "',
            ),
            (
                "[bot]\ntoken_env = 'A'\n",
                {"A": f"{TOKEN} {TOKEN}"},
                "bot.token_env: the token is empty or holds a space",
            ),
            ("[bot]\ntoken_env = 'A'\n", {"A": ""}, "bot.token_env: the token is empty"),
            ("[bot]\ntoken_env = 'A'\n", {"A": f'{TOKEN}"'}, "bot.token_env: the token is empty"),
            (
                "[bot]\ntoken_env = 'A'\n",
                {"A": TOKEN * 8},
                "bot.token_env: the token has 408 bytes. The node holds 256",
            ),
            (
                "[bot]\ntoken_env = 'A'\n",
                {},
                "bot.token_env: the environment has no A. Set it (export A=...), or write token_file",
            ),
            (
                "[bot]\ntoken_env = 'A'\ntoken_file = 'b'\n",
                {},
                "bot.token_file: token_env is given too. Write one of the two",
            ),
        ],
    )
    def test_refusal_names_key_and_remedy_and_hides_the_token(
        self, load: Load, text: str, environ: dict[str, str], message: str
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            load(text, environ)
        assert re.match(r"node\.toml:[123]: " + re.escape(message), str(caught.value))
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.problems)
        assert TOKEN[:16] not in shown


class TestControl:
    def test_without_a_key_the_channel_is_off(self) -> None:
        assert NodeConfig.default().control_key.get_secret_value() == b""

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            (KEY, bytes.fromhex(KEY)),
            (KEY.upper() * 2, bytes.fromhex(KEY) * 2),
            ("k" * 32, b"k" * 32),
            ("abcdef" * 6, b"abcdef" * 6),
            ("x!~" * 21, b"x!~" * 21),
        ],
    )
    def test_hex_and_text_make_a_key(self, load: Load, text: str, key: bytes) -> None:
        config = load("", {"SHARDFW_CONTROL_KEY": f" {text}\n"})
        assert config.control_key.get_secret_value() == key

    def test_key_from_named_variable_and_from_file(self, load: Load, tmp_path: Path) -> None:
        named = load("[control]\nkey_env = 'MY_KEY'\n", {"MY_KEY": KEY, "SHARDFW_CONTROL_KEY": "x"})
        (tmp_path / "control.key").write_text(KEY + "\n")
        read = load("[control]\nkey_file = 'control.key'\n")
        assert named.control_key == read.control_key
        assert named.control_key.get_secret_value() == bytes.fromhex(KEY)

    def test_key_is_never_shown(self, load: Load) -> None:
        config = load("", {"SHARDFW_CONTROL_KEY": "k" * 40})
        assert "k" * 16 not in repr(config) + str(config) + f"{config.control_key!r}"

    @pytest.mark.parametrize(
        ("text", "environ", "message"),
        [
            (f"[control]\nkey = '{KEY}'\n", {}, "control.key: a key does not belong in this file"),
            (
                f"[control]\nkey_env = '{KEY}'\n",
                {},
                "control.key_env: this is not the name of an environment variable. Write a name "
                'such as "SHARDFW_CONTROL_KEY" and put the key into that variable',
            ),
            (
                f"[control]\nkey_file = '{KEY}'\n",
                {},
                "control.key_file: cannot read that file: No such",
            ),
            (
                "[control]\nkey_env = 'A'\n",
                {},
                "control.key_env: the environment has no A. Set it (export A=...), or write key_file",
            ),
            (
                "[control]\nkey_env = 'A'\nkey_file = 'b'\n",
                {},
                "control.key_file: key_env is given too. Write one of the two",
            ),
            (
                "[control]\nkey_env = 'A'\n",
                {"A": " "},
                "control.key_env: the key is empty. Make one with: openssl rand -hex 32",
            ),
            (
                "[control]\nkey_env = 'A'\n",
                {"A": KEY[:31]},
                "control.key_env: the key has 31 characters; at least 32 are needed. Make one",
            ),
            (
                "[control]\nkey_env = 'A'\n",
                {"A": f"{KEY} {KEY}"},
                "control.key_env: the key is neither 64 to 128 hex digits nor 32 to 64 printable "
                "characters without a space. Make one with: openssl rand -hex 32",
            ),
            (
                "[control]\nkey_env = 'A'\n",
                {"A": KEY * 3},
                "control.key_env: the key is neither 64 to 128 hex digits",
            ),
        ],
    )
    def test_refusal_names_key_and_remedy_and_hides_the_key(
        self, fail: Fail, text: str, environ: dict[str, str], message: str
    ) -> None:
        (line,) = fail(text, environ)
        assert re.sub(r"^node\.toml:[123]: ", "", line).startswith(message)
        assert KEY[:16] not in line

    def test_who_keeps_sessions_without_a_key_could_never_save_one(
        self, load: Load, fail: Fail
    ) -> None:
        host = '[log]\n[sessions]\nprovider = "host"\n'
        assert fail(host) == [
            'node.toml:3: sessions.provider: "host" takes sessions over by command, and without a '
            "key the node obeys none: nothing would ever be saved. Write key_env or key_file under "
            '[control], or set SHARDFW_CONTROL_KEY; or write provider = "none"'
        ]
        assert load(host, {"SHARDFW_CONTROL_KEY": KEY}).sessions.provider == "host"
        assert load(host.replace("host", "none")).sessions.provider == "none"

    def test_a_caller_that_makes_a_key_needs_none(self, tmp_path: Path) -> None:
        path = tmp_path / "node.toml"
        path.write_text('[sessions]\nprovider = "host"\n')
        assert load_config(path, {}, makes_key=True).sessions.provider == "host"

    def test_a_key_that_is_wrong_is_the_only_thing_said(self, fail: Fail) -> None:
        (line,) = fail('[sessions]\nprovider = "host"\n', {"SHARDFW_CONTROL_KEY": "short"})
        assert "control.key_env" in line

    def test_a_bad_key_in_the_default_variable_is_refused(self, fail: Fail) -> None:
        (line,) = fail("", {"SHARDFW_CONTROL_KEY": "short"})
        assert line.startswith("node.toml: control.key_env: the key has 5 characters")
