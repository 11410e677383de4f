"""What happened at each node, written down as rows: `schema` says which, `Recorder` takes them, `Writer` keeps them in files."""
