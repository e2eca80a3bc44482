Rows are compared field by field.

## equal rows
SELECT id FROM t WHERE (a, b) = ROW(1, c + 1) AND (a, b) <> (c, 2)
--
SELECT id FROM t WHERE (a = 1 AND b = (c + 1)) AND (a <> c OR b <> 2)

## an order of rows
SELECT id FROM t WHERE (a, b, c) <= (1, 2, 3)
--
SELECT id FROM t WHERE (a < 1 OR (a = 1 AND (b < 2 OR (b = 2 AND c <= 3))))

## a range
SELECT id FROM t WHERE (a, b) NOT BETWEEN (1, 2) AND (3, 4)
--
SELECT id FROM t WHERE NOT ((a > 1 OR (a = 1 AND b >= 2)) AND (a < 3 OR (a = 3 AND b <= 4)))

## a list
SELECT id FROM t WHERE (a, b) IN ((1, 2), ($1, $2), (5, 6))
--
SELECT id FROM t WHERE ((a = 1 AND b = 2) OR ((a = $1 AND b = $2) OR (a = 5 AND b = 6)))

## a subquery
SELECT id FROM t WHERE n > 1 AND (a, b) IN (SELECT x, y FROM u)
--
SELECT id FROM t WHERE n > 1 AND EXISTS(SELECT 1 FROM (SELECT x, y FROM u) AS "row#"("field#1", "field#2") WHERE (a = "row#"."field#1" AND b = "row#"."field#2"))

## unknown members of a subquery count
SELECT id FROM t WHERE (a, b) NOT IN (SELECT x, y FROM u) OR NOT (n = 1 OR (a, b) IN (SELECT x, y FROM v))
--
SELECT id FROM t WHERE NOT EXISTS(SELECT 1 FROM (SELECT x, y FROM u) AS "row#"("field#1", "field#2") WHERE (a = "row#"."field#1" AND b = "row#"."field#2") IS NOT FALSE) OR NOT (n = 1 OR EXISTS(SELECT 1 FROM (SELECT x, y FROM v) AS "row#"("field#1", "field#2") WHERE (a = "row#"."field#1" AND b = "row#"."field#2") IS NOT FALSE))

## other tuples stay
SELECT struct(a, b) = struct(1, 2), (a, b) = (1, 2) FROM t GROUP BY ROLLUP (a, b)
--
SELECT struct(a, b) = struct(1, 2), (a = 1 AND b = 2) FROM t GROUP BY ROLLUP (a, b)
