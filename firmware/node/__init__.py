"""The node: one step of everything, the lease, the operator's commands, diagnostics."""
