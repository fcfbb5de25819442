"""How long editing and reading take, and how that grows; each figure beside something measured in the same run."""
