Forms are written before names are resolved.

## precisions that Arrow lacks
SELECT CAST(a AS TIMESTAMP(4)) AS x, b::timestamptz(1) AS y, c::timestamp(6) AS z FROM t
--
SELECT CAST(a AS TIMESTAMP(6)) AS x, CAST(b AS TIMESTAMPTZ(3)) AS y, CAST(c AS TIMESTAMP(6)) AS z FROM t
