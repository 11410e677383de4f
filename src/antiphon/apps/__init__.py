"""Applications on groups, for people: each is a package that uses nothing but the public face."""
