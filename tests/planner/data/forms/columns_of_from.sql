A query that begins with FROM has all columns.

## without SELECT
FROM t WHERE n > 0
--
SELECT * FROM t WHERE n > 0
