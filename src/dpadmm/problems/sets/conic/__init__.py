"""How a set without a formula is projected onto: a cone programme, Newton's method, and a certificate."""
