"""Who a caller is, and what the caller may see.

- `identity`: a principal
- `credentials`, `handshake`: what a client sends, and how it logs in
- `authenticator`: from credentials to an identity, by one of
    - `passwords` and `users`: names and passwords of a user file
    - `tokens`: bearer tokens, issued for a login or static ones of a token file
    - `jwt` and `jwks`: tokens of an identity provider
    - `tls`: names in client certificates
- `peers`: other gateways, which forward rows
- `throttle`: how often somebody may fail
- `policy` and `expressions`: what roles may see
- `files`: reading what is watched for changes
- `security`: all of this as the server asks for it; `opening` makes it from the configuration
"""
