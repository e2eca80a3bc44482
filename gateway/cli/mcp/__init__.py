"""`lance-gateway mcp`: a server of the Model Context Protocol that is a client of a gateway.

`command` reads the options, `server` has the tools, `searches` writes their SQL, `answers` writes rows as
text that models read.
"""
