"""Every refusal has its line, its key, and what to write instead; no token is ever shown."""

import re
import tomllib
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.node_toml import Fail, Load
from toolchain.config import ConfigError, NodeConfig, load_config
from toolchain.config.load import DEVELOPMENT_TOKEN
from toolchain.config.problems import index_lines
from toolchain.config.schema import SECTIONS

TEMPLATE = Path(__file__).resolve().parents[2] / "pxe" / "templates" / "node.toml"


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
