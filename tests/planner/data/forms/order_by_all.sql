ORDER BY ALL sorts by each output.

## with the direction
SELECT k, n + 1 FROM t ORDER BY ALL DESC
--
SELECT k, n + 1 FROM t ORDER BY 1 DESC, 2 DESC

## behind a set operation, and a column of that name
SELECT k FROM t UNION SELECT n FROM (SELECT n FROM u ORDER BY "ALL") AS q ORDER BY all
--
SELECT k FROM t UNION SELECT n FROM (SELECT n FROM u ORDER BY "ALL") AS q ORDER BY 1
