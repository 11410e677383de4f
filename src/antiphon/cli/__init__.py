"""The command line: `antiphon noun verb`, one file per noun. `main` is the door, `app` the list of nouns."""
