"""From the boot ROM, or from a multiboot loader, to `node_entry` in 64-bit mode."""
