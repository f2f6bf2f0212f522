"""The `shardfw` command: the composition root, which alone may know both tools and firmware."""
