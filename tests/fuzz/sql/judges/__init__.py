"""Who answers besides the gateway, how answers are compared, and how failures are made small."""
