Forms are written before names are resolved.

## an output that is computed from an aggregate
SELECT k, max(n) + 1, count(*) AS c FROM t GROUP BY k ORDER BY 2 DESC NULLS LAST, 3, 1
--
SELECT k, max(n) + 1, count(*) AS c FROM t GROUP BY k ORDER BY max(n) + 1 DESC NULLS LAST, 3, k

## an output that is computed from a group
SELECT k % 2, sum(n) FROM t GROUP BY k ORDER BY 1
--
SELECT k % 2, sum(n) FROM t GROUP BY k ORDER BY k % 2

## no aggregates
SELECT k + 1 FROM t ORDER BY 1
--
SELECT k + 1 FROM t ORDER BY 1

## a name, DISTINCT, and what gives another value each time
SELECT sum(n) + random(), (SELECT DISTINCT max(n) + 1 FROM u GROUP BY k ORDER BY 1 LIMIT 1), max(n) + 1 AS m FROM t ORDER BY 1, 3
--
SELECT sum(n) + random(), (SELECT DISTINCT max(n) + 1 FROM u GROUP BY k ORDER BY 1 LIMIT 1), max(n) + 1 AS m FROM t ORDER BY 1, 3

## a number that is an output
SELECT 5, sum(n) FROM t GROUP BY k ORDER BY 1, 2
--
SELECT 5, sum(n) FROM t GROUP BY k ORDER BY (5), sum(n)
