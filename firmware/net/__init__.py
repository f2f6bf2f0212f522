"""Ethernet, ARP, IPv4, ICMP, UDP, DHCP and DNS."""
