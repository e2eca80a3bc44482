Forms are written before names are resolved.

## casts of texts as PostgreSQL writes bytes
SELECT '\xDEADbeef'::bytea, CAST('\x' AS BLOB) AS x, E'\\x61'::bytea AS y
--
SELECT x'deadbeef' AS "bytea", x'' AS x, x'61' AS y

## others
SELECT TRY_CAST('\x6' AS BYTEA) AS x, CAST('ab' AS BYTEA) AS y, a::bytea AS z FROM t
--
SELECT CAST(NULL AS BYTEA) AS x, CAST('ab' AS BYTEA) AS y, CAST(a AS BYTEA) AS z FROM t
