"""The messages of Flight SQL, and what every command family needs of them."""
