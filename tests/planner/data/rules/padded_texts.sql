Tables: t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## lengths of rows
SELECT lpad(s, i - 3, 'x'), rpad(s, 5) FROM t
--
SELECT lpad(s, CASE WHEN (i - 3) < 0 THEN 0 ELSE i - 3 END, 'x'), rpad(s, 5) FROM t
