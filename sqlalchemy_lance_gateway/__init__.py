"""The gateway as a database of SQLAlchemy: `create_engine("lance_gateway://user:password@host:31337")`.

A client and nothing else: it speaks Flight SQL through the ADBC driver, and needs none of the gateway's
packages.

================  ====================================================================
module            what SQLAlchemy asks it for
================  ====================================================================
`dialect`         what the gateway can do; it has the other modules
`connecting`      the driver's arguments from a URL
`cursors`         statements with parameters, and the rows that they change
`compiling`       the text of queries, writes and types
`defining`        the text of `CREATE`, `ALTER` and `DROP`
`reflecting`      tables, columns, keys, constraints and indexes that there are
`types`           types that SQLAlchemy has no name for
================  ====================================================================
"""

from sqlalchemy_lance_gateway.dialect import LanceGatewayDialect
from sqlalchemy_lance_gateway.types import (
    HALF,
    STRUCT,
    TIMESTAMP,
    TINYINT,
    UBIGINT,
    UINTEGER,
    USMALLINT,
    UTINYINT,
    VECTOR,
)

__all__ = [
    "HALF",
    "STRUCT",
    "TIMESTAMP",
    "TINYINT",
    "UBIGINT",
    "UINTEGER",
    "USMALLINT",
    "UTINYINT",
    "VECTOR",
    "LanceGatewayDialect",
]
