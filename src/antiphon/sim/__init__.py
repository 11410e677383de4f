"""Driver 1: the real endpoints in a world of virtual time, where every fault comes from one seed."""
