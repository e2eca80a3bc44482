Tables: mixed (day DATE, flag BOOLEAN, large and fixed of bytes), days (id BIGINT, tm TIME, b BYTEA).

## large bytes, and those of a fixed size
SELECT coalesce(large, X'00'), greatest(fixed, X'00') FROM mixed WHERE large = fixed
--
SELECT coalesce(large, arrow_cast(x'00', 'LargeBinary')), greatest(arrow_cast(fixed, 'Binary'), x'00') FROM mixed WHERE large = arrow_cast(fixed, 'LargeBinary')

## set operations
SELECT b FROM days UNION ALL SELECT fixed FROM mixed
--
SELECT b FROM days UNION ALL SELECT arrow_cast(fixed, 'Binary') AS "fixed" FROM mixed

## one type
SELECT greatest(large, large) FROM mixed WHERE fixed IN (fixed)
--
SELECT greatest(large, large) FROM mixed WHERE fixed IN (fixed)

## functions
SELECT octet_length(b) AS o, bit_length(large) AS c, sha256(fixed) AS s, md5(b) AS m, octet_length(s) AS t FROM days, mixed, t
--
SELECT (character_length(encode(b, 'hex')) / 2) AS o, (character_length(encode(large, 'hex')) * 4) AS c, sha256(arrow_cast(fixed, 'Binary')) AS s, md5(b) AS m, octet_length(s) AS t FROM days, mixed, t

## NULL
SELECT coalesce(large, NULL) AS x FROM mixed
--
SELECT coalesce(large, arrow_cast(NULL, 'LargeBinary')) AS x FROM mixed

## bytes that functions give
SELECT length(sha256(s)) AS a, coalesce(decode(s, 'base64'), NULL) AS b FROM t
--
SELECT (character_length(encode(sha256(s), 'hex')) / 2) AS a, coalesce(decode(s, 'base64'), arrow_cast(NULL, 'Binary')) AS b FROM t
