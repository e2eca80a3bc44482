Tables: days (id BIGINT, tm TIME, b BYTEA), t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## beside a column
SELECT days.id FROM days, t WHERE b = '\xff00' OR b IN ('\x61', '\x', 'a') OR s = '\x61'
--
SELECT days.id FROM days, t WHERE b = x'ff00' OR b IN (x'61', x'', 'a') OR s = '\x61'

## in coalesce, and in a set operation
SELECT coalesce(b, '\xFF') AS x FROM days UNION SELECT '\x61'
--
SELECT coalesce(b, x'ff') AS x FROM days UNION SELECT x'61'
