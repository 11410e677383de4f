"""What `fuzz_node.py` throws at a node, and how."""
