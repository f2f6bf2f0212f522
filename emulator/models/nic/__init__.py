"""Reference models of the NIC driver."""
