"""Matches between agents and what follows from them."""

from splendor_env.evaluation.match import MatchResult, SeatResult, play_match, play_specs

__all__ = ["MatchResult", "SeatResult", "play_match", "play_specs"]
