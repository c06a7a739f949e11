"""Numerical helpers of the privacy side: inverses of costs, and rounding that can only raise them."""
