"""Forward rows between gateways to the owner of their region."""
