"""The memory-conditioned language model: encoder, episodic memory and decoder."""
