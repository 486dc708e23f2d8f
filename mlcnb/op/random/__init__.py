"""Random numbers: generators that are functions of a seed, and draws from given numbers."""
