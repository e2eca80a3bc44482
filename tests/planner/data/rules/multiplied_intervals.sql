Tables: t (id BIGINT, i BIGINT, ts TIMESTAMP).

## by integers
SELECT ts + INTERVAL '1 day' * i AS a, ts - 2 * INTERVAL '1 month 2 hours' AS b FROM t
--
SELECT ts + CAST((i * 1) || ' days' AS INTERVAL) AS a, ts - CAST((2 * 1) || ' months' || (2 * 7200000000000) || ' nanoseconds' AS INTERVAL) AS b FROM t
