Tables: days (id BIGINT, tm TIME, b BYTEA), t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## beside a column
SELECT days.id FROM days, t WHERE b = '\xff00' OR b IN ('\x61', '\x', 'a') OR s = '\x61'
--
SELECT days.id FROM days, t WHERE b = x'ff00' OR b IN (x'61', x'', 'a') OR s = '\x61'

## in coalesce, and what is no text of digits
SELECT coalesce(b, '\x00') AS x FROM days WHERE b < '\x6'
--
SELECT coalesce(b, x'00') AS x FROM days WHERE b < '\x6'
