"""The operation itself: keys, values and queries, weights and contexts, random keys."""
