"""Tree search and one-step lookahead over positions of the core; see `mcts` and `lookahead`."""
