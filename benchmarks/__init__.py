"""Speed and memory as ratios against a peer in the same run. Nothing here decides a test."""
