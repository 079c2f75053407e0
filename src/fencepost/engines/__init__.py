"""Who does the work: each engine turns an agent's definition into something that can be started."""
