"""Tables that tests make, and what becomes of them."""
