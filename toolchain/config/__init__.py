"""The configuration of one node: `node.toml` in, one frozen and checked `NodeConfig` out.

Promise: whoever holds a `NodeConfig` need not check it again. All that is wrong with a file is
reported at once, each problem with its line and what to write instead. The bot's token and the
key of the control channel are read from environment variables or files, and nothing here prints them.
"""

from toolchain.config.endpoint import Endpoint
from toolchain.config.fleet import FleetConfig
from toolchain.config.identify import IdentifyConfig
from toolchain.config.load import NodeConfig, load_config
from toolchain.config.policy import (
    BackoffConfig,
    DispatchConfig,
    PlanConfig,
    StartupConfig,
)
from toolchain.config.problems import ConfigError, Problem
from toolchain.config.schema import (
    BotConfig,
    ControlConfig,
    DiagnosticsConfig,
    GatewayConfig,
    LeaseConfig,
    LogConfig,
    NetworkConfig,
    ShardsConfig,
)
from toolchain.config.tls import TlsConfig

__all__ = [
    "BackoffConfig",
    "BotConfig",
    "ConfigError",
    "ControlConfig",
    "DiagnosticsConfig",
    "DispatchConfig",
    "Endpoint",
    "FleetConfig",
    "GatewayConfig",
    "IdentifyConfig",
    "LeaseConfig",
    "LogConfig",
    "NetworkConfig",
    "NodeConfig",
    "PlanConfig",
    "Problem",
    "ShardsConfig",
    "StartupConfig",
    "TlsConfig",
    "load_config",
]
