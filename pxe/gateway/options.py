"""Settings of the local gateway, checked when they are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pxe.gateway.envelope import ENVELOPE_ORDERS
from pxe.gateway.load import LoadOptions
from pxe.gateway.protocol import DISCORD, PRIVILEGED_INTENTS, Profile
from pxe.gateway.script import Step

_POSITIVE = (
    "shards",
    "recommended",
    "max_concurrency",
    "heartbeat_interval_ms",
    "session_ttl_ms",
    "replay_events",
    "replay_bytes",
    "session_start_total",
    "max_queued_bytes",
)
_NOT_NEGATIVE = ("identify_interval_ms", "identify_tolerance_ms", "guilds_per_shard")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What the gateway serves and how strict it is.

    Attributes:
        shards: Shard count of the bot; Identify with another total is refused.
        max_concurrency: Identify keys; a key is ``shard_id % max_concurrency``.
        heartbeat_interval_ms: Interval that Hello announces.
        heartbeat_grace_ms: Patience beyond the interval; None means half of it.
        token: The only accepted token; None accepts any that is not empty.
        allowed_privileged: Privileged intents that do not close 4014.
        identify_interval_ms: Time for which an Identify keeps its key busy; None means the profile's.
        identify_tolerance_ms: Jitter of the network that the gate forgives.
        session_start_total: Identifies in 24 hours; one more ends every session and the token.
        session_ttl_ms: Life of a session without a connection; None means the profile's.
        replay_events: Dispatches kept for Resume.
        replay_bytes: UTF-8 bytes of dispatches kept for Resume.
        max_queued_bytes: Bytes that may wait for a slow client before it is dropped.
        guilds_per_shard: Unavailable guild stubs in READY.
        guild_create: Whether READY is followed by one GUILD_CREATE for each stub.
        resumed_advances: Whether RESUMED takes a sequence number of its own.
        envelope: Key order of server messages, a key of ENVELOPE_ORDERS; None means the profile's.
        require_user_agent: Whether an upgrade without User-Agent is closed with 4002, as
            Spacebar's server does; not every client library sends one.
        http_form: How HTTP answers tell the end of a body, one of FORMS of the rest module.
        public_url: Gateway URL for clients; None means the host that the client dialled.
        seed: Seed of session ids and load.
        load: Dispatch load, or None.
        script: Steps for tests.
        recommended: Shards that /gateway/bot recommends; None means those that there are.
        doors: Whether each shard has a port of its own, which READY names for the Resume.
        resume_urls: Shard to the URL that READY names instead; an empty one is left out.
        profile: Limits and tables of the service.
    """

    shards: int = 1
    max_concurrency: int = 1
    heartbeat_interval_ms: int = 41_250
    heartbeat_grace_ms: int | None = None
    token: str | None = field(default=None, repr=False)
    allowed_privileged: int = PRIVILEGED_INTENTS
    identify_interval_ms: int | None = None
    identify_tolerance_ms: int = 100
    session_start_total: int = 1_000
    session_ttl_ms: int | None = None
    replay_events: int = 4_096
    replay_bytes: int = 16 * 1024 * 1024
    max_queued_bytes: int = 64 * 1024 * 1024
    guilds_per_shard: int = 2
    guild_create: bool = True
    resumed_advances: bool = False
    envelope: str | None = None
    require_user_agent: bool = True
    http_form: str = "length"
    public_url: str | None = None
    seed: int = 0
    load: LoadOptions | None = None
    script: tuple[Step, ...] = ()
    recommended: int | None = None
    doors: bool = False
    resume_urls: Mapping[int, str] = field(default_factory=dict)
    profile: Profile = DISCORD

    def __post_init__(self) -> None:
        """Refuse settings that make no sense.

        Raises:
            ValueError: Names the setting, its value and what to give instead.
        """
        for lowest, names in ((1, _POSITIVE), (0, _NOT_NEGATIVE)):
            for name in names:
                if (getattr(self, name) or 0) < lowest and getattr(self, name) is not None:
                    msg = f"{name} is {getattr(self, name)}: give {lowest} or more"
                    raise ValueError(msg)
        if self.token == "":
            msg = "token is empty: give a token, or None to accept any"
            raise ValueError(msg)
        if not self.doors and any(s.on == "connect" and s.shard is not None for s in self.script):
            msg = (
                'shard cannot be used with on = "connect": the shard is known from Identify on, '
                "or at its door"
            )
            raise ValueError(msg)
        if self.envelope is not None and self.envelope not in ENVELOPE_ORDERS:
            msg = f"envelope is {self.envelope!r}: give one of {', '.join(ENVELOPE_ORDERS)}"
            raise ValueError(msg)

    @property
    def key_order(self) -> str:
        """Key order of server messages."""
        return self.envelope or self.profile.envelope

    @property
    def identify_busy_ms(self) -> int:
        """Time for which an Identify keeps its key busy."""
        wanted = self.identify_interval_ms
        return self.profile.identify_spacing_ms if wanted is None else wanted

    @property
    def session_life_ms(self) -> int:
        """Time for which a session waits for a Resume."""
        return self.session_ttl_ms or self.profile.session_ttl_ms

    @property
    def heartbeat_patience_ms(self) -> int:
        """Time after Hello or a heartbeat at which a silent client is closed with 4009."""
        grace = self.heartbeat_grace_ms
        if grace is None:
            grace = self.heartbeat_interval_ms // 2
        return self.heartbeat_interval_ms + grace
