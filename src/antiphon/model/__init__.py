"""The nouns: ids, batches and the other frames, events, views, ranges, the codec, options. No behaviour over time."""
