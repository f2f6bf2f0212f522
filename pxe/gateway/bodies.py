"""Event bodies that look like the service's own.

Field sets follow Discord's documentation of the objects; every value is made up.
Client libraries parse them completely, which the tests with strangers rely on.
"""

from typing import Final

BOT_ID: Final = "1100000000000000001"
APPLICATION_ID: Final = "1100000000000000002"
_JOINED: Final = "2023-01-02T03:04:05.678000+00:00"
# The service counts milliseconds from 2015; this one lies in 2023.
_SNOWFLAKE_MS: Final = 260_000_000_000

JsonObject = dict[str, object]


def guild_id(shard: int, shards: int, index: int) -> str:
    """Return the id of one guild of a shard: ``(id >> 22) % shards == shard``."""
    return str((_SNOWFLAKE_MS // shards * shards + index * shards + shard) << 22)


def user(user_id: str, name: str, *, bot: bool = False) -> JsonObject:
    """Return a user object."""
    return {
        "id": user_id,
        "username": name,
        "discriminator": "0",
        "global_name": None if bot else name.title(),
        "avatar": None,
        "banner": None,
        "accent_color": None,
        "avatar_decoration_data": None,
        "bot": bot,
        "public_flags": 0,
        "flags": 0,
        "mfa_enabled": False,
        "locale": "en-US",
        "verified": True,
        "email": None,
    }


BOT_USER: Final = user(BOT_ID, "shardfw", bot=True)


def application() -> JsonObject:
    """Return the bot's application object as REST gives it."""
    return {
        "id": APPLICATION_ID,
        "name": "shardfw",
        "icon": None,
        "description": "",
        "rpc_origins": [],
        "bot_public": False,
        "bot_require_code_grant": False,
        "owner": user("1100000000000000003", "owner"),
        "summary": "",
        "verify_key": "0" * 64,
        "team": None,
        "flags": 0,
    }


def member(who: JsonObject) -> JsonObject:
    """Return a guild member object."""
    return {
        "user": who,
        "nick": None,
        "avatar": None,
        "roles": [],
        "joined_at": _JOINED,
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }


def channel(guild: str, index: int, name: str) -> JsonObject:
    """Return a text channel object; the first one has its guild's id."""
    return {
        "id": str(int(guild) + index),
        "type": 0,
        "guild_id": guild,
        "name": name,
        "position": index,
        "permission_overwrites": [],
        "topic": None,
        "nsfw": False,
        "last_message_id": None,
        "rate_limit_per_user": 0,
        "parent_id": None,
        "flags": 0,
    }


def guild(guild_id_: str, channels: int = 2) -> JsonObject:
    """Return the body of GUILD_CREATE."""
    role = {
        "id": guild_id_,
        "name": "@everyone",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 0,
        "permissions": "104324673",
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }
    return {
        "id": guild_id_,
        "name": f"guild {guild_id_}",
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "owner_id": "1100000000000000003",
        "region": "deprecated",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "nsfw": False,
        "roles": [role],
        "emojis": [],
        "stickers": [],
        "features": [],
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "safety_alerts_channel_id": None,
        "vanity_url_code": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "premium_progress_bar_enabled": False,
        "preferred_locale": "en-US",
        "max_members": 500_000,
        "max_presences": None,
        "max_video_channel_users": 25,
        "max_stage_video_channel_users": 50,
        "incidents_data": None,
        "joined_at": _JOINED,
        "large": False,
        "unavailable": False,
        "member_count": 2,
        "voice_states": [],
        "members": [member(BOT_USER)],
        "channels": [channel(guild_id_, i, f"channel-{i}") for i in range(channels)],
        "threads": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def ready(
    *, version: int, session_id: str, resume_url: str, shard: tuple[int, int], guilds: list[str]
) -> JsonObject:
    """Return the body of READY with unavailable guild stubs; an empty URL is left out."""
    body: JsonObject = {
        "v": version,
        "user_settings": {},
        "user": BOT_USER,
        "session_type": "normal",
        "session_id": session_id,
        "resume_gateway_url": resume_url,
        "relationships": [],
        "private_channels": [],
        "presences": [],
        "guilds": [{"unavailable": True, "id": stub} for stub in guilds],
        "guild_join_requests": [],
        "geo_ordered_rtc_regions": ["rotterdam", "bucharest", "milan"],
        "game_relationships": [],
        "auth": {},
        "application": {"id": APPLICATION_ID, "flags": 0},
        "shard": list(shard),
        "_trace": ["shardfw-gateway"],
    }
    if not resume_url:
        del body["resume_gateway_url"]
    return body


def fluxer_ready(*, version: int, session_id: str, shard: tuple[int, int] | None) -> JsonObject:
    """Return the body of Fluxer's READY for a bot: no stubs, no URL, the shard only if it was sent."""
    ready: JsonObject = {
        "version": version,
        "session_id": session_id,
        "user": BOT_USER,
        "guilds": [],
        "users": [],
        "presences": [],
        "private_channels": [],
        "relationships": [],
        "read_states": [],
        "rtc_regions": [],
        "country_code": "NL",
    }
    return ready if shard is None else ready | {"shard": list(shard)}


def members_chunk(guild_id_: object, nonce: object) -> JsonObject:
    """Return the body of GUILD_MEMBERS_CHUNK with the bot as the only member."""
    return {
        "guild_id": guild_id_,
        "members": [member(BOT_USER)],
        "chunk_index": 0,
        "chunk_count": 1,
        "not_found": [],
        "nonce": nonce,
    }
