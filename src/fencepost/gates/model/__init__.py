"""The model gate: calls of a model pass it only while the run's lease holds, with a key that the agent never sees."""
