"""[fleet] in node.toml: what a node needs to know of its fleet, what it must not say, its secrets."""

import re
from pathlib import Path

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from firmware.layouts.config import ConfigBlob
from firmware.layouts.fleet import HELD_MAX
from firmware.layouts.fleet_config import FLEET_MAGIC, BusAuth, FleetConfig
from tests.toolchain.test_config import TEMPLATE
from toolchain.cli.blob import config_blob
from toolchain.cli.fleet_blob import FLEET_SECRET, fleet_blob
from toolchain.config import ConfigError, NodeConfig, fleet, load_config
from toolchain.config.nkey import nkey_of, parse_nkey, seed_text
from toolchain.layout.pack import unpack

FIELDS = [field.name for field in FleetConfig.fields()]
KEPT_IN = {
    "password_env": "password",
    "password_file": "password",
    "nkey_env": "nkey_seed",
    "nkey_file": "nkey_seed",
}
"""Field of the page, of keys that are called otherwise."""
IN_ANOTHER_PAGE = "enrol"
"""It decides whether the page of the configuration holds a token."""
FLEET = "[fleet]\nbot = 'b1'\nservers = ['nats.lan']\n"
WSS = "[gateway]\nurl = 'wss://gateway.lan/'\n"
KEY = bytes(range(32))
SEED = nkeys.encode_seed(KEY, nkeys.PREFIX_BYTE_USER).decode()
PUBLIC = nkeys.from_seed(bytearray(SEED.encode())).public_key.decode()
ACCOUNT = nkeys.encode_seed(KEY, nkeys.PREFIX_BYTE_ACCOUNT).decode()


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a text as node.toml, so that messages begin with that name."""
    monkeypatch.chdir(tmp_path)

    def run(text, environ=(), **overrides):
        Path("node.toml").write_text(text)
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        return load_config(Path("node.toml"), dict(environ), dotted)

    return run


@pytest.fixture
def fail(load):
    def run(text, environ=()):
        with pytest.raises(ConfigError) as caught:
            load(text, environ)
        return str(caught.value).splitlines()

    return run


def test_the_bounds_are_those_of_the_page():
    fields = {field.name: field for field in FleetConfig.fields()}
    assert fields["bot"].size == fields["node"].size == fleet.NAME_MAX
    assert fields["user"].size == fields["password"].size == fleet.CREDENTIAL_MAX
    assert unpack(FleetConfig, bytes(FleetConfig.SIZE))["servers"].__len__() == fleet.SERVERS_MAX
    assert HELD_MAX == fleet.HELD_MAX


def test_every_field_of_the_page_has_its_key_and_every_key_its_field():
    told = {"magic"} | {name for name in FIELDS if name.endswith(("_len", "_used"))}
    assert set(FIELDS) - told == {
        KEPT_IN.get(key, key) for key in fleet.FleetConfig.model_fields
    } - {IN_ANOTHER_PAGE} | {"nkey_public"}


def test_a_node_without_the_table_has_no_fleet_and_an_empty_page():
    config = NodeConfig.default()
    assert not config.fleet.enabled
    assert fleet_blob(config) == bytes(FleetConfig.SIZE)


def test_a_node_of_a_fleet_begins_without_a_shard(load):
    config = load(FLEET)
    assert config.fleet.enabled
    page = unpack(ConfigBlob, config_blob(config))
    assert (page["global_total"], page["local_start"], page["local_count"]) == (0, 0, 0)
    page = unpack(FleetConfig, fleet_blob(config))
    assert page["magic"] == FLEET_MAGIC
    assert page["bot"][: page["bot_len"]] == b"b1"
    assert page["node_len"] == page["user_len"] == page["password_len"] == 0
    assert (page["auth"], page["handshake_first"], page["cap"], page["publish"]) == (0, 0, 1, 1)
    assert page["servers_used"] == 1
    first = page["servers"][0]
    assert (first["host"][: first["host_len"]], first["port"]) == (b"nats.lan", 4222)
    assert not any(fleet_blob(config)[FLEET_SECRET])


def test_a_node_that_enrols_has_no_token_whatever_the_environment_says(load):
    config = load(FLEET, {"SHARDFW_TOKEN": "not.for.this.image"})
    assert config.token.get_secret_value() == ""
    page = unpack(ConfigBlob, config_blob(config))
    assert (page["token_len"], any(page["token"])) == (0, False)


@pytest.mark.parametrize(
    ("environ", "token"), [({}, b"local-development"), ({"SHARDFW_TOKEN": "t.o.k"}, b"t.o.k")]
)
def test_a_node_that_does_not_enrol_has_its_token_inside(load, environ, token):
    page = unpack(ConfigBlob, config_blob(load(f"{FLEET}enrol = false\n", environ)))
    assert page["token"][: page["token_len"]] == token


def test_every_key_reaches_the_page(load):
    servers = "['nats-a.lan', 'n2:5', 'nats://n3', 'tls://10.1.2.3:7/']"
    text = (
        f"{WSS}[fleet]\nbot = 'b_1'\nnode = 'n-7'\nservers = {servers}\nauth = 'user'\n"
        "user = 'ada'\ncap = 8\nhandshake_first = true\npublish = false\nreserve = 50\n"
    )
    config = load(text, {"SHARDFW_FLEET_PASSWORD": "pa55"})
    page = unpack(FleetConfig, fleet_blob(config))
    for key, value in {"bot": b"b_1", "node": b"n-7", "user": b"ada", "password": b"pa55"}.items():
        assert page[key][: page[f"{key}_len"]] == value
    assert page["auth"] == BusAuth.USER
    assert (page["handshake_first"], page["cap"], page["publish"]) == (1, 8, 0)
    assert page["reserve"] == 50
    used = page["servers"][: page["servers_used"]]
    assert [(one["host"][: one["host_len"]], one["port"]) for one in used] == [
        (b"nats-a.lan", 4222),
        (b"n2", 5),
        (b"n3", 4222),
        (b"10.1.2.3", 7),
    ]


@pytest.mark.parametrize("source", ["nkey_env = 'MINE'", "nkey_file = 'n7.nk'", ""])
def test_an_nkey_is_its_private_key_and_its_public_text(tmp_path, load, source):
    (tmp_path / "n7.nk").write_text(SEED + "\n")
    config = load(
        f"{FLEET}auth = 'nkey'\n{source}\n", {"MINE": SEED, "SHARDFW_FLEET_NKEY": f" {SEED}\n"}
    )
    page = unpack(FleetConfig, fleet_blob(config))
    assert page["auth"] == BusAuth.NKEY
    assert (page["nkey_seed"], page["nkey_public"]) == (KEY, PUBLIC.encode())
    assert SEED not in repr(config)
    assert repr(KEY) not in repr(config)


@given(st.binary(min_size=32, max_size=32))
def test_nkeys_are_read_as_nats_own_library_reads_them(key):
    seed = nkeys.encode_seed(key, nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    found = parse_nkey(seed.decode())
    assert (found.seed, found.public) == (key, public)
    assert nkey_of(key) == found
    assert seed_text(key) == seed.decode()


@given(st.integers(0, len(SEED) - 2), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_a_seed_with_one_wrong_character_is_refused(place, character):
    wrong = SEED[:place] + character + SEED[place + 1 :]
    if wrong == SEED:
        assert parse_nkey(wrong).seed == KEY
        return
    with pytest.raises(ValueError, match="seed") as caught:
        parse_nkey(wrong)
    assert wrong not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "the seed is empty. Make one with: shardfw fleet nkey FILE, or nk -gen user; its seed",
        ),
        (PUBLIC, "this is the public key, U...; the node signs with its seed, SU..."),
        (SEED.lower(), "the seed holds a character that is not A to Z or 2 to 7. Copy it again"),
        (SEED[:-1], "the seed has 57 characters, not 58. Copy it again, alone on one line"),
        ("N" + SEED[1:], "the key begins with N, so it is no seed. Make one with: shardfw"),
        (ACCOUNT, "the seed begins with SA, so it is not that of a user. Make one with: sh"),
        (SEED[:-1] + "A", "the seed's checksum is wrong: a character is. Copy it again"),
    ],
)
def test_a_wrong_seed_says_what_is_wrong_and_not_itself(fail, text, message):
    (line,) = fail(f"{FLEET}auth = 'nkey'\n", {"SHARDFW_FLEET_NKEY": text})
    assert line.startswith(f"node.toml:1: fleet.nkey_env: {message}")
    assert not text or text not in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fleet]\n", "1: fleet.bot: missing. Write the bot's name in the fleet's subjects: bot ="),
        ("[fleet]\nnode = 'n7'\n", "1: fleet.bot: missing. Write the bot's name in the fleet's"),
        (
            f"{FLEET}[bot]\ntoken_env = 'MINE'\n",
            "5: bot.token_env: [fleet] is given, and there shardfw fleet approve gives a node its token",
        ),
        (
            f"{FLEET}[bot]\ntoken_file = 'mine'\n",
            "5: bot.token_file: [fleet] is given, and there shardfw fleet approve gives a node its",
        ),
        ("[fleet]\nbot = ''\n", "2: fleet.bot: missing. Write the bot's name in the fleet's"),
        (
            "[fleet]\nbot = 'b1'\n",
            '1: fleet.servers: missing. Write where NATS listens: servers = ["nats.lan:4222"]',
        ),
        (
            FLEET.replace("b1", "b.1"),
            "2: fleet.bot: 'b.1' is not a name. Write 1 to 32 letters, digits, _ or -",
        ),
        (FLEET + "node = 'n*'\n", "4: fleet.node: 'n*' is not a name. Write 1 to 32 letters,"),
        (FLEET + f"node = '{'n' * 33}'\n", f"4: fleet.node: '{'n' * 33}' is not a name. Write 1"),
        (FLEET + "cap = 0\n", "4: fleet.cap: this value is not an integer from 1 to 8. Write how"),
        (FLEET + "cap = 9\n", "4: fleet.cap: this value is not an integer from 1 to 8. Write how"),
        (FLEET + "publish = 1\n", "4: fleet.publish: this value is not true or false. Write true"),
        (FLEET + "auth = 'token'\n", "4: fleet.auth: this value does not work in this version. W"),
        (FLEET + "nod = 'n7'\n", "4: fleet.nod: unknown key. Did you mean node?"),
        (
            FLEET + "password = 'pa55'\n",
            "4: fleet.password: a secret does not belong in this file: images and files get copied. "
            'Write password_env = "SHARDFW_FLEET_PASSWORD" or nkey_env = "SHARDFW_FLEET_NKEY" and',
        ),
        (FLEET + f"nkey = '{SEED}'\n", "4: fleet.nkey: a secret does not belong in this file"),
        (
            FLEET + "user = 'ada'\n",
            '4: fleet.user: auth is "none". Write auth = "user", or leave this key out',
        ),
        (
            FLEET + "auth = 'user'\nuser = 'ada'\nnkey_file = 'x'\n",
            '6: fleet.nkey_file: auth is "user". Write auth = "nkey", or leave this key out',
        ),
        (
            FLEET + "auth = 'user'\n",
            '1: fleet.user: missing with auth = "user". Write the node\'s user at NATS',
        ),
        (
            FLEET + "auth = 'user'\nuser = 'a b'\n",
            "5: fleet.user: the user must be 1 to 64 printable characters without a space, a quote",
        ),
        (
            FLEET + "auth = 'nkey'\nnkey_env = 'A'\nnkey_file = 'b'\n",
            "6: fleet.nkey_file: nkey_env is given too. Write one of the two",
        ),
        (
            FLEET + f"auth = 'nkey'\nnkey_env = '{SEED} '\n",
            "5: fleet.nkey_env: this is not the name of an environment variable. Write a name such "
            'as "SHARDFW_FLEET_NKEY" and put the seed into that variable',
        ),
        (
            FLEET + "auth = 'user'\nuser = 'ada'\npassword_env = 'NO'\n",
            "6: fleet.password_env: the environment has no NO. Set it (export NO=...), or write "
            "password_file",
        ),
        (
            FLEET + "auth = 'user'\nuser = 'ada'\npassword_file = 'no'\n",
            "6: fleet.password_file: cannot read that file: No such file or directory. Write the "
            "path of a file that holds the password alone; a relative path begins at this file",
        ),
        (
            FLEET + "auth = 'user'\nuser = 'ada'\n",
            '1: fleet.password_env: auth = "user" needs the password. Set SHARDFW_FLEET_PASSWORD, or '
            "write password_env or password_file",
        ),
        (
            FLEET + "reserve = -1\n",
            "4: fleet.reserve: this value is not an integer from 0 to 1000000",
        ),
        (
            FLEET + "[gateway]\nmax_concurrency = 16\n",
            "5: gateway.max_concurrency: [fleet] is given, and there the plan says how many shards "
            "identify at once. Leave this key out, and give --max-concurrency to: shardfw fleet init",
        ),
        (
            FLEET + "[shards]\ncount = 4\n",
            "4: shards: [fleet] is given, and there the plan says which shards a node holds. Leave "
            "[shards] out, and write the plan with: shardfw fleet init, shardfw fleet plan",
        ),
        (
            FLEET + "[lease]\nduration_ms = 20000\n",
            "5: lease.duration_ms: [fleet] is given, and there the plan says how long a lease lasts",
        ),
        (
            FLEET + "[plan]\nauto = true\n",
            "5: plan.auto: [fleet] is given, and there only an operator changes the total. Leave",
        ),
        (
            FLEET + "[sessions]\nprovider = 'host'\n",
            "5: sessions.provider: [fleet] is given, and there NATS keeps the sessions. Leave this",
        ),
        (
            FLEET + "handshake_first = true\n",
            "4: fleet.handshake_first: the node speaks TLS to the gateway and to NATS, or to "
            "neither. Write a wss:// URL under [gateway], or leave this key out",
        ),
        (
            FLEET.replace("nats.lan", "tls://nats.lan"),
            "3: fleet.servers: the node speaks TLS to the gateway and to NATS, or to neither. Write "
            "a wss:// URL under [gateway], or the servers without tls://",
        ),
    ],
)
def test_a_wrong_table_says_where_and_what_to_write(fail, text, message):
    lines = fail(text, {"SHARDFW_CONTROL_KEY": "k" * 32})
    assert lines[0].startswith(f"node.toml:{message}")
    assert "pa55" not in "".join(lines)
    assert SEED not in "".join(lines)


def test_harmless_values_of_what_a_fleet_excludes_are_let_pass(load):
    text = "[gateway]\nmax_concurrency = 1\n[lease]\nduration_ms = 0\n[plan]\nauto = false\n[sessions]\nprovider = 'none'\n"
    assert load(FLEET + text).fleet.enabled


def test_the_login_of_whoever_gives_commands_gets_into_no_image(fail):
    own = {"SHARDFW_NATS_PASSWORD": "pa55", "SHARDFW_NATS_NKEY": SEED}
    (line,) = fail(f"{FLEET}auth = 'user'\nuser = 'ada'\n", own)
    assert "needs the password. Set SHARDFW_FLEET_PASSWORD" in line
    (line,) = fail(f"{FLEET}auth = 'nkey'\n", own)
    assert "Set SHARDFW_FLEET_NKEY" in line


@pytest.mark.parametrize("password", ["", "a b", 'a"b', "a\\b", "p" * 65, "pä"])
def test_a_password_that_cannot_stand_in_json_is_refused(fail, password):
    lines = fail(f"{FLEET}auth = 'user'\nuser = 'ada'\n", {"SHARDFW_FLEET_PASSWORD": password})
    assert lines == [
        "node.toml:1: fleet.password_env: the password must be 1 to 64 printable characters "
        "without a space, a quote or a backslash"
    ]


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("['http://nats.lan']", "'http://nats.lan' is no server. Write each as host or host:port"),
        ("['nats.lan:0']", "'nats.lan:0' is no server. Write each as host or host:port, such as"),
        ("['nats.lan:99999']", "'nats.lan:99999' is no server. Write each as host or host:port"),
        ("['nats.lan/x']", "'nats.lan/x' is no server. Write each as host or host:port, such as"),
        ("['']", "'' is no server. Write each as host or host:port, such as \"nats.lan:4222\""),
        ("['n@x:1']", "a server with a user or password. Write it without; auth, user and passw"),
        ("['localhost']", "localhost is not another machine: there it means the node itself."),
        ("['n' , 'n:4222']", "a server stands twice. Write each once"),
        (str([f"n{number}" for number in range(9)]), "9 servers. The node holds 8; write fewer"),
        (f"['{'n' * 62}.lan']", f"{'n' * 62}.lan has 66 bytes. The node holds 64"),
    ],
)
def test_a_wrong_server_is_named(fail, servers, message):
    (line,) = fail(f"[fleet]\nbot = 'b1'\nservers = {servers}\n")
    assert line.startswith(f"node.toml:3: fleet.servers: {message}")


def test_a_password_in_a_server_is_not_repeated():
    with pytest.raises(PydanticCustomError) as caught:
        fleet.parse_place("http://ada:pa55@nats.lan")
    assert "pa55" not in str(caught.value)


def test_the_template_shows_the_defaults(load):
    text = TEMPLATE.read_text()
    found = re.search(r"^# \[fleet\]\n.*?(?=^\[)", text, re.M | re.S)
    assert found is not None
    alternatives = r"^(user|password_env|password_file|nkey_env|nkey_file) = .*$"
    shown = re.sub(r"^# (?=\[|[a-z_]+ = )", "", found[0], flags=re.M)
    config = load(re.sub(alternatives, "", shown, flags=re.M))
    default = fleet.FleetConfig.model_validate({"bot": "bot1", "servers": ["nats.lan:4222"]})
    assert config.fleet == default
