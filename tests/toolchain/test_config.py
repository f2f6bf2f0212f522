"""Every refusal has its line, its key, and what to write instead; no token is ever shown."""

import re
import tomllib
import traceback
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolchain.config import ConfigError, NodeConfig, load_config
from toolchain.config.endpoint import check_host
from toolchain.config.load import DEVELOPMENT_TOKEN
from toolchain.config.problems import index_lines
from toolchain.config.schema import SECTIONS

TEMPLATE = Path(__file__).resolve().parents[2] / "pxe" / "templates" / "node.toml"
# Made up, in the shape of a real one.
TOKEN = "MTk4NjIyNDgzNDcx.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"  # noqa: S105 - opens nothing

Load = Callable[..., NodeConfig]
Fail = Callable[..., list[str]]


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


class TestDefaults:
    def test_default_is_sixteen_shards_by_dhcp_without_lease(self) -> None:
        config = NodeConfig.default()
        assert (config.shards.total, config.shards.start, config.shards.count) == (16, 0, 16)
        assert config.gateway.max_concurrency == 1
        assert config.gateway.endpoint.url == "ws://10.0.2.2:80/?v=10&encoding=json"
        assert config.identify.allowance == 1000
        assert config.lease.duration_ms == 0
        assert (config.backoff.policy, config.backoff.max_delay_ms) == ("jittered", 30_000)
        assert (config.startup.timeout_ms, config.startup.on_limit) == (30_000, "retry")
        assert config.plan.identify_shards
        assert config.network.dhcp
        assert config.bot.intents == 513
        assert config.token.get_secret_value() == DEVELOPMENT_TOKEN
        assert config.build_time == 0

    def test_config_is_frozen(self) -> None:
        config = NodeConfig.default()
        with pytest.raises(AttributeError, match="cannot assign"):
            config.build_time = 1  # type: ignore[misc]  # the refusal is what is tested
        with pytest.raises(ValidationError, match="frozen"):
            config.shards.count = 2

    def test_template_loads(self) -> None:
        config = load_config(TEMPLATE, {})
        assert config.gateway.endpoint.port == 8080
        assert config.shards.count == 16

    @pytest.mark.parametrize("name", SECTIONS)
    def test_template_explains_every_key(self, name: str) -> None:
        # A table that excludes another one is a comment as a whole.
        form = rf"^(?:# )?\[{name}\]\n(.*?)(?=^(?:# )?\[\w+\]|\Z)"
        body = re.search(form, TEMPLATE.read_text(), re.S | re.M)
        assert body is not None
        explained = set(re.findall(r"^(?:# )?([a-z_]+) = ", body[1], re.M))
        assert explained == SECTIONS[name].model_fields.keys()

    def test_template_shows_the_defaults(self, load: Load) -> None:
        # With every comment that is a key taken as one, all but the alternatives must be default.
        # [fleet], which excludes [shards], has a test of its own.
        single = re.sub(r"^# \[fleet\]\n.*?(?=^\[)", "", TEMPLATE.read_text(), flags=re.M | re.S)
        shown = re.sub(r"^# (?=[a-z_]+ = )", "", single, flags=re.M)
        alternatives = r"^(token_file|key_file|url|discovery_url|schedule_ms|resume_suffix|presence|large_threshold|ignored_events|flags|initial_guild_id|host|port = 80$|path|dhcp = false|anchors|extra_anchors|pins|hybrid|time|address|netmask|router|dns)\b.*$"
        config = load(
            re.sub(alternatives, "", shown, flags=re.M),
            {"SHARDFW_TOKEN": "local-development", "SHARDFW_CONTROL_KEY": "k" * 32},
        )
        default = NodeConfig.default()
        assert config.bot.intents == default.bot.intents
        for part in (
            "gateway",
            "shards",
            "identify",
            "lease",
            "plan",
            "startup",
            "backoff",
            "sessions",
            "dispatch",
            "network",
            "diagnostics",
            "log",
            "token",
        ):
            assert getattr(config, part) == getattr(default, part)

    def test_template_static_addresses_load(self, load: Load) -> None:
        shown = re.sub(
            r"^# (?=(dhcp = f|address|netmask|router|dns))", "", TEMPLATE.read_text(), flags=re.M
        )
        assert load(shown).network.address == IPv4Address("192.0.2.10")


class TestLines:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "[gateway]\n\nmax_concurrency = 0\n",
                "node.toml:3: gateway.max_concurrency: 0 is not an integer from 1 to 256. Write "
                "session_start_limit.max_concurrency of your bot, 1 for most",
            ),
            (
                "gateway.port = 'eighty'\n",
                'node.toml:1: gateway.port: "eighty" is not an integer from 1 to 65535. Write the '
                "gateway's TCP port",
            ),
            (
                "[network]\ndhcp = 'yes'\n",
                'node.toml:2: network.dhcp: "yes" is not true or false. Write true or false',
            ),
            (
                "[gateway]\nhost = 1\n",
                "node.toml:2: gateway.host: 1 is not text in double quotes. Write a DNS name or an "
                "IPv4 address",
            ),
            (
                "[shards]\ncoutn = 4\n",
                "node.toml:2: shards.coutn: unknown key. Did you mean count?",
            ),
            (
                "[lease]\nxyzzy = 4\n",
                "node.toml:2: lease.xyzzy: unknown key. Write one of: duration_ms",
            ),
            ("\n[gatway]\n", "node.toml:2: gatway: unknown section. Did you mean gateway?"),
            (
                "shards = 4\n",
                "node.toml:1: shards: this is a section. Write [shards] on a line of its own",
            ),
            (
                "[backoff]\npolicy = 'linear'\n",
                'node.toml:2: backoff.policy: "linear" does not work in this version. Write '
                '"jittered", "fixed" (always 5000 ms) or "schedule"',
            ),
            (
                "[backoff]\nmin_delay_ms = 99\n",
                "node.toml:2: backoff.min_delay_ms: 99 is not an integer from 100 to 2147483647. "
                "Write the longest delay of the first recovery",
            ),
            (
                "[backoff]\nmin_delay_ms = 900\nmax_delay_ms = 800\n",
                "node.toml:3: backoff.max_delay_ms: 800 is less than min_delay_ms, 900. Write at "
                "least that",
            ),
            (
                "[startup]\nmin_delay_ms = 900\nmax_delay_ms = 800\n",
                "node.toml:3: startup.max_delay_ms: 800 is less than min_delay_ms, 900. Write at "
                "least that",
            ),
            (
                "[startup]\ntimeout_ms = 0\n",
                "node.toml:2: startup.timeout_ms: 0 is not an integer from 1 to 2147483647. Write "
                "milliseconds for all shards of the node together",
            ),
            (
                "[startup]\non_limit = 'stop'\n",
                'node.toml:2: startup.on_limit: "stop" does not work in this version. Write "retry" '
                'to report it and go on with [backoff], or "fatal" to stop the shard',
            ),
            (
                "[backoff]\npolicy = 'schedule'\n",
                "node.toml:2: backoff.policy: a schedule without delays. Write schedule_ms = "
                "[0, 1000, 5000] or the like",
            ),
            (
                "[backoff]\nschedule_ms = [1]\n",
                'node.toml:2: backoff.schedule_ms: the policy is not "schedule". Write policy = '
                '"schedule", or leave this key out',
            ),
            (
                f"[backoff]\npolicy = 'schedule'\nschedule_ms = {[0] * 17}\n",
                "node.toml:3: backoff.schedule_ms: 17 delays. The node holds 16; write fewer",
            ),
            (
                "[dispatch]\non_malformed = 'ignore'\n",
                'node.toml:2: dispatch.on_malformed: "ignore" does not work in this version. Write '
                '"skip" to count and warn, or "terminate" to stop the shard',
            ),
            (
                "[plan]\nauto = 'yes'\n",
                'node.toml:2: plan.auto: "yes" is not true or false. Write true to move to a larger '
                "total when the service asks for one, or false",
            ),
            (
                "[sessions]\nprovider = 'redis'\n",
                'node.toml:2: sessions.provider: "redis" does not work in this version. Write "none" '
                'or "host"',
            ),
            (
                "[sessions]\nload_timeout_ms = -1\n",
                "node.toml:2: sessions.load_timeout_ms: -1 is not an integer from 0 to 2147483647. Write "
                "milliseconds that a shard waits for a saved session, 0 when none comes",
            ),
            (
                "[plan]\nidentify_shards = 1\n",
                "node.toml:2: plan.identify_shards: 1 is not true or false. Write true, or false to "
                "send no shard pair",
            ),
            (
                "[gateway]\nprofile = 'guilded'\n",
                'node.toml:2: gateway.profile: "guilded" does not work in this version. Write '
                '"discord" or "fluxer"',
            ),
            (
                "[gateway]\ndiscovery = 'dns'\n",
                'node.toml:2: gateway.discovery: "dns" does not work in this version. Write '
                '"static" or "http"',
            ),
            (
                "[shards]\ntotal = 8\nstart = 4\ncount = 5\n",
                "node.toml:3: shards.start: shards 4 to 8 do not exist among a total of 8. Write a "
                "start of at most 3, a smaller count or a larger total",
            ),
            (
                "[identify]\nallowance = 0\n",
                "node.toml:2: identify.allowance: 0 is not an integer from 1 to 1000000. Write how "
                "many Identifies this node may send in 24 hours, 1000 for most bots",
            ),
            (
                "[identify]\nallowance = 1000001\n",
                "node.toml:2: identify.allowance: 1000001 is not an integer from 1 to 1000000. "
                "Write how many Identifies this node may send in 24 hours, 1000 for most bots",
            ),
            (
                "[shards]\ncount = 257\n",
                "node.toml:2: shards.count: 257 is not an integer from 1 to 256. Write how many shards "
                "this node holds, at most 256",
            ),
            (
                "[diagnostics]\nport = 68\n",
                "node.toml:2: diagnostics.port: 68 is the DHCP client's port. Write another, such as "
                "4747",
            ),
            (
                "[bot]\nintents = ['guilds', 'guild_mesages']\n",
                "node.toml:2: bot.intents: 'guild_mesages' is not an intent. Write names from: guilds,",
            ),
            (
                "[log]\nlevel = 'loud'\n",
                'node.toml:2: log.level: "loud" does not work in this version. Write "error", "warn", '
                '"info", "debug" or "trace"',
            ),
        ],
    )
    def test_wrong_value_is_refused_at_its_line(self, fail: Fail, text: str, expected: str) -> None:
        (line,) = fail(text)
        assert line.startswith(expected)

    def test_all_problems_are_reported_at_once_in_file_order(self, fail: Fail) -> None:
        lines = fail("[log]\nlevel = 1\n[shards]\ncount = 0\nstart = -1\n[bott]\n[lease]\nx = 1\n")
        assert [line.split(": ")[0] for line in lines] == [
            f"node.toml:{number}" for number in (2, 4, 5, 6, 8)
        ]

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("[log]\nlevel = \n", "node.toml:2"),
            ("[log\n", "node.toml:1"),
            ("a = 'x", "node.toml:1"),
        ],
    )
    def test_what_is_not_toml_is_refused_at_its_line(
        self, fail: Fail, text: str, place: str
    ) -> None:
        (line,) = fail(text)
        assert line.startswith(f"{place}: not TOML: ")
        assert line.endswith("write key = value under a [section], text in double quotes")

    def test_missing_file_says_where_to_get_one(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"absent.toml: No such file.*pxe/templates/node.toml"
        ):
            load_config(tmp_path / "absent.toml", {})

    def test_binary_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "node.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(ConfigError, match="not UTF-8 text"):
            load_config(tmp_path / "node.toml", {})

    def test_lines_of_values_that_span_lines_and_of_dotted_keys(self) -> None:
        text = (
            "a.b = 1 # one\n"
            'c = """\n[not.a.table]\nd = 1\n"""\n'
            "e = [\n  1,\n  # f = 2\n]\n"
            "[g.h]\n\ni = { j = 1 }\n"
            "[[k]]\nl = 1\n"
        )
        lines = index_lines(text)
        assert lines == {
            "a": 1, "a.b": 1, "c": 2, "e": 6, "g": 10, "g.h": 10, "g.h.i": 12, "g.h.i.j": 12,
            "k": 13, "k.l": 14,
        }  # fmt: skip

    @given(st.text(alphabet="ab[]=\"'#.{}1, \n", max_size=40))
    def test_any_text_that_is_toml_has_a_line_for_each_key(self, text: str) -> None:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return
        count = len(text.splitlines())
        lines = index_lines(text)
        assert data.keys() <= {key.split(".")[0] for key in lines} or not data
        assert all(1 <= line <= count for line in lines.values())


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


KEY = "5ca1ab1e" * 8


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


class TestGateway:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("url = 'ws://192.0.2.1'", "ws://192.0.2.1:80/?v=10&encoding=json"),
            ("url = 'ws://Gateway.LAN.:8080/x'", "ws://gateway.lan:8080/x?v=10&encoding=json"),
            ("url = 'ws://gw:1/?v=9'", "ws://gw:1/?v=9"),
            ("host = 'GW.lan'\nport = 9\npath = '/a'", "ws://gw.lan:9/a?v=10&encoding=json"),
            ("host = 'xdiscord.gg'", "ws://xdiscord.gg:80/?v=10&encoding=json"),
            ("profile = 'fluxer'", "ws://10.0.2.2:80/?v=1&encoding=json"),
            ("discovery = 'http'", "http://10.0.2.2:80/gateway/bot"),
            (
                "discovery = 'http'\nprofile = 'fluxer'",
                "http://10.0.2.2:80/.well-known/fluxer",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'http://Api.LAN.:8080/api/v10/gateway/bot'",
                "http://api.lan:8080/api/v10/gateway/bot",
            ),
            ("discovery = 'http'\nhost = 'gw'\nport = 9\npath = '/a'", "http://gw:9/a"),
        ],
    )
    def test_place_is_read_from_url_or_parts(self, load: Load, text: str, url: str) -> None:
        assert load(f"[gateway]\n{text}\n").gateway.endpoint.url == url

    def test_address_is_none_for_a_name(self, load: Load) -> None:
        assert load("[gateway]\nhost = 'gw'\n").gateway.endpoint.address is None
        assert NodeConfig.default().gateway.endpoint.address == IPv4Address("10.0.2.2")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("url = 'wss://localhost/'", "url: localhost is not another machine"),
            ("url = 'http://gw/'", "url: this is not a WebSocket URL"),
            ("url = 'ws://gw:99999/'", "url: Port out of range"),
            ("url = 'ws://gw:0/'", "url: port 0 is no port"),
            ("url = 'ws://u:p@gw/'", "url: a URL with a user or password"),
            ("url = 'ws://[::1]/'", "url: '::1' is an IPv6 address"),
            ("url = 'ws://gw/a b'", "url: '/a b' is not a request path"),
            ("url = 'ws://gw/#x'", "url: '/#x' is not a request path"),
            ("url = 'ws://gw/'\nport = 1", "port: url is given too. Write either url, or host,"),
            (
                "discovery_url = 'http://gw/'",
                'discovery_url: discovery is "static". Write discovery = "http", or leave this',
            ),
            (
                "discovery = 'http'\nurl = 'ws://gw/'",
                "url: the gateway is asked for. Write discovery_url, or host, port and path, of",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'wss://gw/'",
                "discovery_url: this is not an HTTP URL. Write one such as http://10.0.2.2:8080/",
            ),
            (
                "discovery = 'http'\ndiscovery_url = 'ws://gw/'",
                "discovery_url: this is not an HTTP URL",
            ),
            ("host = 'localhost'", "host: localhost is not another machine"),
            ("host = '127.0.0.1'", "host: 127.0.0.1 is not another machine"),
            ("host = '10.0.0.256'", "host: '10.0.0.256' is not an IPv4 address"),
            ("host = '-a'", "host: '-a' is not a host"),
            ("host = 'a..b'", "host: 'a..b' is not a host"),
            ("resume_suffix = 'a..b'", "resume_suffix: 'a..b' is not a host"),
            ("resume_suffix = ''", "resume_suffix: '' is not a host"),
            ("resume_suffix = 1", "resume_suffix: 1 is not text in double quotes. Write a domain"),
            ("path = 'x'", "path: 'x' is not a request path"),
            (f"path = '/{'a' * 256}'", "path: the path has 257 bytes. Write at most 256"),
        ],
    )
    def test_unusable_place_is_refused(self, fail: Fail, text: str, message: str) -> None:
        (line,) = fail(f"[gateway]\n{text}\n")
        assert re.sub(r"^node\.toml:[23]: gateway\.", "", line).startswith(message)

    @pytest.mark.parametrize("key", ["host = 'a'", "port = 1", "path = '/a'"])
    def test_who_is_asked_is_named_once(self, fail: Fail, key: str) -> None:
        text = "[gateway]\ndiscovery = 'http'\ndiscovery_url = 'http://gw/'\n"
        (line,) = fail(f"{text}{key}\n")
        assert "discovery_url is given too. Write either discovery_url, or host, port" in line

    @given(st.text(max_size=80))
    def test_a_host_that_passes_fits_a_dns_query(self, host: str) -> None:
        try:
            checked = check_host(host)
        except ValueError:
            return
        assert checked.isascii()
        assert all(1 <= len(label) <= 63 for label in checked.split("."))


class TestNetwork:
    STATIC = "[network]\ndhcp = false\naddress = '192.0.2.10'\nnetmask = '255.255.255.0'\n"

    def test_static_address(self, load: Load) -> None:
        network = load(self.STATIC + "router = '192.0.2.1'\n").network
        assert network.address == IPv4Address("192.0.2.10")
        assert network.router == IPv4Address("192.0.2.1")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[network]\naddress = '192.0.2.1'\n", "2: network.address: dhcp is on. Write dhcp"),
            ("[network]\ndhcp = false\n", "2: network.dhcp: without DHCP the node needs address"),
            (
                STATIC.replace("255.255.255.0", "0.0.0.255"),
                "4: network.netmask: 0.0.0.255 is not a netmask",
            ),
            (
                STATIC.replace("255.255.255.0", "255.0.255.0"),
                "4: network.netmask: 255.0.255.0 is not a netmask",
            ),
            (STATIC.replace(".10'", ".255'"), "3: network.address: 192.0.2.255 is no address for"),
            (
                STATIC + "router = '10.0.0.1'\n",
                "5: network.router: 10.0.0.1 is not in 192.0.2.0/24",
            ),
            (
                STATIC + "[gateway]\nhost = 'gw.lan'\n",
                "1: network.dns: gw.lan is a name and there is no DNS server",
            ),
            (STATIC.replace("192.0.2.10", "host"), "3: network.address: 'host' is not an IPv4"),
        ],
    )
    def test_unusable_addresses_are_refused(self, fail: Fail, text: str, message: str) -> None:
        (line,) = fail(text)
        assert line.startswith(f"node.toml:{message}")


class TestOverridesAndTime:
    def test_count_alone_is_the_whole_bot(self, load: Load) -> None:
        shards = load("[shards]\ncount = 4\n").shards
        assert (shards.total, shards.start, shards.count) == (4, 0, 4)

    def test_override_wins_over_the_file(self, load: Load) -> None:
        config = load("[shards]\ncount = 4\n", shards__count=2, gateway__max_concurrency=16)
        assert (config.shards.count, config.gateway.max_concurrency) == (2, 16)

    def test_wrong_override_is_blamed_on_the_command_line(self, fail: Fail) -> None:
        (line,) = fail("", shards__count=0)
        assert line.startswith("command line: shards.count: 0 is not an integer from 1 to 256")

    def test_configured_time_wins_over_source_date_epoch(self, load: Load) -> None:
        assert load("", {"SOURCE_DATE_EPOCH": "7"}).build_time == 7
        assert load("[build]\ntime = 5\n", {"SOURCE_DATE_EPOCH": "7"}).build_time == 5

    def test_wrong_source_date_epoch_is_refused(self, fail: Fail) -> None:
        (line,) = fail("", {"SOURCE_DATE_EPOCH": "today"})
        assert line == (
            "environment: SOURCE_DATE_EPOCH: 'today' is not a time. Set it to whole seconds since "
            "1970-01-01 UTC"
        )

    def test_intents_by_name_and_number(self, load: Load) -> None:
        assert load("[bot]\nintents = ['guilds', 'message_content']\n").bot.intents == 0x8001
        assert load("[bot]\nintents = 0\n").bot.intents == 0
