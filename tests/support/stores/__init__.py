"""Object stores, and what fails in them."""
