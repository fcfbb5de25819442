"""A page in the browser: write a fact, ask anything, and see what the edit changed and what it did not."""
