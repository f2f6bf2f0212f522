"""Read, check and freeze a node's configuration."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretBytes, SecretStr, ValidationError

from toolchain.config.control_key import KEY_ENV, parse_control_key
from toolchain.config.fleet import read_credentials
from toolchain.config.identify import FLUXER_TOTAL_MAX
from toolchain.config.problems import ConfigError, Problem, index_lines, parse_toml
from toolchain.config.schema import SECTIONS, ShardsConfig
from toolchain.config.secret import (
    ADVICE_ON_SECRETS,
    SECRET_KEYS,
    SECRETS,
    SecretError,
    read_secret,
)
from toolchain.config.token import token_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from toolchain.config.fleet import FleetConfig
    from toolchain.config.identify import IdentifyConfig
    from toolchain.config.nkey import Nkey
    from toolchain.config.policy import (
        BackoffConfig,
        DispatchConfig,
        PlanConfig,
        SessionsConfig,
        StartupConfig,
    )
    from toolchain.config.schema import (
        BotConfig,
        ControlConfig,
        DiagnosticsConfig,
        GatewayConfig,
        LeaseConfig,
        LogConfig,
        NetworkConfig,
    )
    from toolchain.config.section import Section
    from toolchain.config.tls import TlsConfig

# Sent when no token is configured. Local gateways take any; no image goes to a real one with it.
DEVELOPMENT_TOKEN = "local-development"  # noqa: S105 - a placeholder, not a secret
DEFAULT_TOKEN_ENV = "SHARDFW_TOKEN"  # noqa: S105 - the name of a variable
TYPE_NAMES = {"int": "an integer", "bool": "true or false", "str": "text in double quotes"}


@dataclass(frozen=True)
class NodeConfig:
    """A whole node, checked.

    Attributes:
        token: what Identify and Resume carry; shown as asterisks; `get_secret_value()` reads it.
        control_key: what signs commands, shown as asterisks; empty turns the control channel off.
        build_time: seconds since 1970 that the image carries; 0 when neither the configuration
            nor SOURCE_DATE_EPOCH states one.
        extra_anchors: name and contents of each file of [tls] extra_anchors.
        fleet_password: what the node logs in to NATS with; empty without auth = "user".
        fleet_nkey: the key it signs with; None without auth = "nkey".
    """

    bot: BotConfig
    gateway: GatewayConfig
    tls: TlsConfig
    shards: ShardsConfig
    fleet: FleetConfig
    identify: IdentifyConfig
    lease: LeaseConfig
    plan: PlanConfig
    startup: StartupConfig
    backoff: BackoffConfig
    sessions: SessionsConfig
    dispatch: DispatchConfig
    network: NetworkConfig
    diagnostics: DiagnosticsConfig
    control: ControlConfig
    log: LogConfig
    token: SecretStr
    control_key: SecretBytes
    build_time: int
    extra_anchors: tuple[tuple[str, bytes], ...]
    fleet_password: SecretStr
    fleet_nkey: Nkey | None

    @staticmethod
    def default() -> NodeConfig:
        """Return the configuration of an empty file in an empty environment."""
        return load_config(None, {})


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    *,
    makes_key: bool = False,
) -> NodeConfig:
    """Read and check a configuration.

    Args:
        path: the TOML file; None for all defaults.
        environ: the environment: the token's variable and SOURCE_DATE_EPOCH are read from it.
        overrides: dotted keys that win over the file, for example {"shards.count": 4}.
        makes_key: whether the caller makes a key for commands when none is configured.

    Raises:
        ConfigError: the file cannot be read or used; holds every problem found.
    """
    return _Loader(path, environ, overrides or {}, makes_key=makes_key).load()


class _Loader:
    """One load: gathers problems instead of stopping at the first."""

    def __init__(
        self,
        path: Path | None,
        environ: Mapping[str, str],
        overrides: Mapping[str, object],
        *,
        makes_key: bool,
    ) -> None:
        self.path = path
        self.makes_key = makes_key
        self.source = "defaults" if path is None else str(path)
        self.environ = environ
        self.overrides = overrides
        self.base = Path() if path is None else path.parent
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def load(self) -> NodeConfig:
        """Return the configuration or raise with all problems."""
        data = self._read()
        for key in data.keys() - SECTIONS.keys():
            secret = key.lower() in SECRET_KEYS
            message = self._unknown_key(key, list(SECTIONS), "section")
            self._blame(key, ADVICE_ON_SECRETS["bot"] if secret else message)
        sections = {name: self._check(name, data.get(name, {})) for name in SECTIONS}
        token = self._token(sections["bot"], sections["fleet"])
        control_key = self._control_key(sections["control"])
        build_time = self._build_time(sections["build"])
        self._check_resolvable(sections["gateway"], sections["network"])
        self._check_service(sections)
        extra_anchors = self._extra_anchors(sections["tls"], sections["gateway"])
        password, nkey = self._fleet(sections, data)
        if not self.problems and not control_key.get_secret_value():
            self._check_keeper(sections["sessions"])
        if self.problems:
            raise ConfigError(self.problems)
        parts = {name: part for name, part in sections.items() if name != "build"}
        return NodeConfig(
            **cast("dict[str, Any]", parts),
            token=token,
            control_key=control_key,
            build_time=build_time,
            extra_anchors=extra_anchors,
            fleet_password=SecretStr(password),
            fleet_nkey=nkey,
        )

    def _read(self) -> dict[str, object]:
        """Return the file's tables with the overrides in place."""
        data: dict[str, object] = {}
        if self.path is not None:
            try:
                text = self.path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                advice = "not UTF-8 text. Save the file as UTF-8"
                raise ConfigError([Problem(self.source, 0, "", advice)]) from None
            except OSError as error:
                advice = (
                    f"{error.strerror}. Copy pxe/templates/node.toml there, or name another file"
                )
                raise ConfigError([Problem(self.source, 0, "", advice)]) from None
            data = parse_toml(text, self.source)
            self.lines = index_lines(text)
        for dotted, value in self.overrides.items():
            section, _, key = dotted.partition(".")
            table = data.setdefault(section, {})
            if isinstance(table, dict):
                table[key] = value
        return data

    def _blame(self, key: str, message: str) -> None:
        """Record a problem at the line of a key, else of the table it belongs to."""
        if key in self.overrides:
            self.problems.append(Problem("command line", 0, key, message))
            return
        line = self.lines.get(key) or self.lines.get(key.partition(".")[0], 0)
        self.problems.append(Problem(self.source, line, key, message))

    def _check(self, name: str, table: object) -> Section | None:
        """Return one checked section, None after recording what is wrong with it."""
        if not isinstance(table, dict):
            self._blame(name, f"this is a section. Write [{name}] on a line of its own")
            return None
        # A token is dealt with first, and its value kept out of every message.
        known = dict(table)
        for key in table:
            if key.lower() in SECRETS.get(name, ()):
                del known[key]
                self._blame(f"{name}.{key}", ADVICE_ON_SECRETS[name])
        try:
            return SECTIONS[name].model_validate(known)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._explain(name, detail)
            return None

    def _explain(self, name: str, detail: ErrorDetails) -> None:
        """Record one finding of the schema in our words."""
        fields = SECTIONS[name].model_fields
        key = str(detail["loc"][0]) if detail["loc"] else ""
        context = detail.get("ctx", {})
        if detail["type"] == "refused":
            key = key or str(context["key"])
            self._blame(f"{name}.{key}", str(context["message"]))
        elif detail["type"] == "extra_forbidden":
            self._blame(f"{name}.{key}", self._unknown_key(key, list(fields), "key"))
        else:
            self._blame(f"{name}.{key}", _wrong_value(name, fields[key], detail))

    @staticmethod
    def _unknown_key(key: str, known: list[str], what: str) -> str:
        """Return the message for a name that the schema does not have."""
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Write one of: {', '.join(known)}"
        return f"unknown {what}. {hint}"

    def _token(self, section: Section | None, fleet: Section | None) -> SecretStr:
        """Return the token from its variable or file; the development token when none is named.

        Empty for a node that enrols.
        """
        enrols = fleet is not None and cast("FleetConfig", fleet).enrols
        if section is None or enrols:
            return SecretStr("")
        try:
            text = read_secret(
                section, "token", "token", DEFAULT_TOKEN_ENV, self.environ, self.base
            )
        except SecretError as error:
            self._blame(f"bot.{error.key}", str(error))
            return SecretStr("")
        where = "token_file" if cast("BotConfig", section).token_file is not None else "token_env"
        return self._checked_token(f"bot.{where}", DEVELOPMENT_TOKEN if text is None else text)

    def _control_key(self, section: Section | None) -> SecretBytes:
        """Return the key of the control channel; empty when none is named."""
        if section is None:
            return SecretBytes(b"")
        try:
            text = read_secret(section, "key", "key", KEY_ENV, self.environ, self.base)
            return SecretBytes(b"" if text is None else parse_control_key(text))
        except ValueError as error:
            named = cast("ControlConfig", section).key_file is not None
            self._blame("control.key_file" if named else "control.key_env", str(error))
        except SecretError as error:
            self._blame(f"control.{error.key}", str(error))
        return SecretBytes(b"")

    def _checked_token(self, key: str, token: str) -> SecretStr:
        """Return a token that can stand in a JSON string as it is."""
        if (problem := token_problem(token)) is not None:
            self._blame(key, problem)
        return SecretStr(token)

    def _build_time(self, section: Section | None) -> int:
        """Return the configured time, else SOURCE_DATE_EPOCH, else 0."""
        configured = getattr(section, "time", None)
        if configured is not None:
            return int(configured)
        text = self.environ.get("SOURCE_DATE_EPOCH", "0")
        if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > 0xFFFF_FFFF:
            message = f"{text!r} is not a time. Set it to whole seconds since 1970-01-01 UTC"
            self.problems.append(Problem("environment", 0, "SOURCE_DATE_EPOCH", message))
            return 0
        return int(text)

    def _check_resolvable(self, gateway: Section | None, network: Section | None) -> None:
        """Record a gateway name that a node with static addresses could not resolve."""
        if gateway is None or network is None:
            return
        endpoint = cast("GatewayConfig", gateway).endpoint
        addresses = cast("NetworkConfig", network)
        if endpoint.address is None and not addresses.dhcp and addresses.dns is None:
            self._blame(
                "network.dns",
                f"{endpoint.host} is a name and there is no DNS server. Write dns, or the gateway's "
                "address in [gateway]",
            )

    def _extra_anchors(
        self, section: Section | None, gateway: Section | None
    ) -> tuple[tuple[str, bytes], ...]:
        """Return the operator's files of anchors."""
        if section is None or gateway is None:
            return ()
        tls, secure = cast("TlsConfig", section), cast("GatewayConfig", gateway).endpoint.secure
        for key, message in tls.problems(secure=secure):
            self._blame(f"tls.{key}", message)
        try:
            return tls.read(self.base)
        except ValueError as error:
            self._blame("tls.extra_anchors", str(error))
        return ()

    def _fleet(
        self, sections: dict[str, Section | None], data: Mapping[str, object]
    ) -> tuple[str, Nkey | None]:
        """Return what the node logs in to NATS with; its shards are then none of the file's."""
        fleet = cast("FleetConfig | None", sections["fleet"])
        if fleet is None or "fleet" not in data:
            return "", None
        gateway = cast("GatewayConfig | None", sections["gateway"])
        secure = gateway is None or gateway.endpoint.secure
        for key, message in fleet.problems(data, secure=secure):
            self._blame(key, message)
        sections["shards"] = ShardsConfig.of_fleet()
        try:
            return read_credentials(fleet, self.environ, self.base)
        except SecretError as error:
            self._blame(f"fleet.{error.key}", str(error))
        return "", None

    def _check_service(self, sections: Mapping[str, Section | None]) -> None:
        """Record what the service of the profile does not take in an Identify."""
        gateway, identify, shards = (sections[name] for name in ("gateway", "identify", "shards"))
        if gateway is None or identify is None or shards is None:
            return
        profile = cast("GatewayConfig", gateway).profile
        for key, message in cast("IdentifyConfig", identify).problems(profile):
            self._blame(f"identify.{key}", message)
        if profile == "fluxer" and cast("ShardsConfig", shards).total > FLUXER_TOTAL_MAX:
            self._blame(
                "shards.total",
                f"fluxer takes at most {FLUXER_TOTAL_MAX} shards. Write a total of at most that",
            )

    def _check_keeper(self, sessions: Section | None) -> None:
        """Record that nobody could ever save a session: there is no key for the commands."""
        if not self.makes_key and cast("SessionsConfig", sessions).provider == "host":
            self._blame(
                "sessions.provider",
                '"host" takes sessions over by command, and without a key the node obeys none: '
                "nothing would ever be saved. Write key_env or key_file under [control], or set "
                f'{KEY_ENV}; or write provider = "none"',
            )


def _wrong_value(section: str, field: FieldInfo, detail: ErrorDetails) -> str:
    """Return the message for a value of a wrong type or out of its bounds."""
    value = detail["input"]
    # Where a secret might have been written by mistake, values are not repeated.
    shown = "this value" if section in SECRETS else _toml(value)
    bounds = {type(item).__name__: item for item in field.metadata}
    wrong_type = next((words for name, words in TYPE_NAMES.items() if name in detail["type"]), None)
    low, high = getattr(bounds.get("Ge"), "ge", None), getattr(bounds.get("Le"), "le", None)
    if low is not None and low != high:
        wrong_type = f"an integer from {low} to {high}"
    elif wrong_type is None or low is not None:
        return f"{shown} does not work in this version. Write {field.description}"
    return f"{shown} is not {wrong_type}. Write {field.description}"


def _toml(value: object) -> str:
    """Return a value about as it stood in the file, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
