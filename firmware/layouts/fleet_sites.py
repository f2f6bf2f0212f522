"""Why a slot or a watch ends: the sites of the layer."""

from __future__ import annotations

from firmware.errors import SITES, Layer, site

FLEET_LOST = site(Layer.FLEET, 1, "lost", "the record of a slot that was held names somebody else")
FLEET_EXPIRED = site(Layer.FLEET, 2, "expired", "no renewal was granted in time")
FLEET_FROZEN = site(Layer.FLEET, 3, "frozen", "the clock stood still; detail = seconds")
FLEET_UNCONFIRMED = site(Layer.FLEET, 4, "unconfirmed", "nothing answered to a claim")
FLEET_DRAIN = site(Layer.FLEET, 5, "drain", "the plan asks all nodes to give their slots back")
FLEET_REPLANNED = site(Layer.FLEET, 6, "replanned", "the plan no longer has the slot as it is held")
FLEET_ASKED = site(Layer.FLEET, 7, "asked", "an operator, or the stop of the node")
FLEET_LATE = site(Layer.FLEET, 8, "late", "the plan changed before the claim came back")
FLEET_GAP = site(Layer.FLEET, 9, "gap", "a delivery of the watch is missing")
FLEET_SILENT = site(Layer.FLEET, 10, "silent", "the watch says nothing any more")
FLEET_REFUSED = site(Layer.FLEET, 11, "refused", "the server makes no consumer; detail = status")
FLEET_DELIVERY = site(Layer.FLEET, 12, "delivery", "a delivery without what every one has")
FLEET_LINK = site(Layer.FLEET, 13, "link", "the control connection is another one")
FLEET_UNANSWERED = site(
    Layer.FLEET, 14, "unanswered", "this server grants nothing, or makes no watch"
)
FLEET_IDLE = site(
    Layer.FLEET, 15, "idle", "the watch has shown nothing new for long: is it cut off?"
)
FLEET_NO_ROWS = site(Layer.FLEET, 40, "no_rows", "this node has no room for all of its shards")
REASONS = {found.number: found.name for found in SITES.values() if found.layer is Layer.FLEET}
"""Sites by number, for lines."""
