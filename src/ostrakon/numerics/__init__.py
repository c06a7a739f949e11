"""Numbers that several parts of the privacy side need: inverses of costs, and rounding that can only raise them."""
