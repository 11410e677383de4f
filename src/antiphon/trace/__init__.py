"""What happened at each node, written down as rows: `schema` says which, a `Recorder` takes them, a `Writer` keeps them in files.

`Trace` is what a node is given, when a directory alone says too little.
"""

from antiphon.trace.trace import Trace

__all__ = ["Trace"]
