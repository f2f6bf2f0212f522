"""Roles that only test builds link: what other people's suites need a node to do."""
