"""How frames travel between nodes: datagrams with IP multicast (`udp`), a mesh of connections (`tcp`), or within a process (`memory`)."""
