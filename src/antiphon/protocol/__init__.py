"""The core: endpoints and their stages, state machines without I/O. `endpoint` is where to begin reading."""
