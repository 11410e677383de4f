"""The nouns: ids, batches and the other frames, views, ranges, clocks, the codec, options. No behaviour over time."""
