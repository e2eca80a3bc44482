Tables: t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## formats of rows
SELECT id FROM t WHERE to_char(ts, s) = 'x' AND date_format(at, lower(s)) IS NULL
--
SELECT id FROM t WHERE CASE WHEN s IS NOT NULL THEN to_char(ts, s) END = 'x' AND CASE WHEN lower(s) IS NOT NULL THEN date_format(at, lower(s)) END IS NULL

## an output keeps its name for the query around it
SELECT to_char(ts, s), "to_char(q.ts,q.s)" FROM (SELECT *, to_char(ts, s) FROM t AS q) AS t
--
SELECT CASE WHEN s IS NOT NULL THEN to_char(ts, s) END, "to_char(q.ts,q.s)" FROM (SELECT *, CASE WHEN s IS NOT NULL THEN to_char(ts, s) END AS "to_char(q.ts,q.s)" FROM t AS q) AS t

## constant formats
SELECT to_char(ts, '%Y') AS x, date_format(ts, $1) AS y FROM t
--
SELECT to_char(ts, '%Y') AS x, date_format(ts, $1) AS y FROM t
