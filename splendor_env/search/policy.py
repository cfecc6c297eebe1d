"""Distributions over legal actions, and how the values of a search improve them. Plain NumPy."""

import numpy as np

_LOWEST = 1e-30


def log_softmax(logits: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Logarithms (B, A) of the probabilities over the legal actions; `ILLEGAL` elsewhere.

    They are uniform where a legal logit is NaN or infinitely high, or all are infinitely low.
    """
    masked = np.where(legal, logits, -np.inf)
    highest = masked.max(1, keepdims=True)
    is_usable = np.isfinite(highest)  # a NaN is the highest
    shifted = np.where(is_usable, masked - np.where(is_usable, highest, 0), 0)
    return log_normalized(np.exp(shifted), legal)


def log_normalized(prior: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """The same from numbers (B, A) proportional to the probabilities, uniform for a useless sum."""
    prior = np.where(legal, prior, 0).astype(np.float64)
    sum_ = prior.sum(1, keepdims=True)
    is_usable = (sum_ > 0) & (sum_ < np.inf)
    uniform = legal / np.maximum(legal.sum(1, keepdims=True), 1)
    prior = np.where(is_usable, prior / np.where(is_usable, sum_, 1), uniform)
    return np.where(legal, np.log(np.maximum(prior, _LOWEST)), ILLEGAL)


ILLEGAL = -1e9
"""Logarithm of the probability of an illegal action: finite, so that 0 times it is 0."""


def improve(
    log_prior: np.ndarray,
    visits: np.ndarray,
    q: np.ndarray,
    value: np.ndarray,
    legal: np.ndarray,
    c_visit: float,
    c_scale: float,
) -> np.ndarray:
    """Log p + sigma(completed Q) of Danihelka et al. 2022: logits (B, A) of the improved policy.

    An action without visits gets the mixed value: the root's own, `value` (B,), together with the
    values of the visited actions, weighted by the prior. Values are shares from 0 to 1.
    """
    prior = np.exp(log_prior)
    visits = np.where(legal, visits, 0)
    is_visited = visits > 0
    visited_prior = np.where(is_visited, prior, 0).sum(1)
    weighted = np.where(is_visited, prior * q, 0).sum(1) / np.maximum(visited_prior, _LOWEST)
    number = visits.sum(1)
    mixed = (value + number * np.where(visited_prior > 0, weighted, value)) / (1 + number)
    completed = np.where(is_visited, q, mixed[:, None])
    scale = (c_visit + visits.max(1)) * c_scale
    return np.where(legal, log_prior + scale[:, None] * completed, ILLEGAL)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities (B, A)."""
    exponential = np.exp(scores - scores.max(1, keepdims=True))
    return exponential / exponential.sum(1, keepdims=True)
