Tables: t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## large texts
SELECT find_in_set(arrow_cast('a', 'LargeUtf8'), s) AS a, find_in_set(s, 'a,b') AS b FROM t
--
SELECT find_in_set(arrow_cast(arrow_cast('a', 'LargeUtf8'), 'Utf8'), s) AS a, find_in_set(s, 'a,b') AS b FROM t
