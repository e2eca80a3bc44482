Tables: see tests/planner/sql/rules/test_rules.py.

## the branches of CASE
SELECT CASE WHEN price IS NULL THEN '4.44' ELSE price END AS x, CASE WHEN n = 1 THEN '-7' ELSE n END AS y FROM p
--
SELECT CASE WHEN price IS NULL THEN 4.44 ELSE price END AS x, CASE WHEN n = 1 THEN -7 ELSE n END AS y FROM p

## a comparison with a decimal
SELECT id FROM p WHERE price IN ('4.444', '1', NULL) OR price BETWEEN '.5' AND n
--
SELECT id FROM p WHERE price IN (4.444, 1, NULL) OR price BETWEEN .5 AND n

## DataFusion compares integers and floats rightly
SELECT id FROM p WHERE n = '4' OR f IN ('4.44', '1')
--
SELECT id FROM p WHERE n = '4' OR f IN ('4.44', '1')

## set operations
SELECT id, price FROM p UNION SELECT '7', '4.44'
--
SELECT id, price FROM p UNION SELECT 7, 4.44

## beside texts a text remains one
SELECT coalesce(s, '4'), CASE WHEN i = 1 THEN '4' WHEN i = 2 THEN s ELSE i END AS x, i AS y FROM t
--
SELECT coalesce(s, '4'), CASE WHEN i = 1 THEN '4' WHEN i = 2 THEN s ELSE i END AS x, i AS y FROM t

## integers have no fraction
SELECT coalesce(n, '4.44') FROM p
--
SELECT coalesce(n, '4.44') FROM p

## signed and unsigned integers of 64 bits are decimals together
SELECT CASE v WHEN 65536 THEN 'a' WHEN '1.104' THEN 'b' END AS x FROM w
--
SELECT CASE v WHEN 65536 THEN 'a' WHEN 1.104 THEN 'b' END AS x FROM w

## arithmetic
SELECT price * '1.5' AS a, n + '7' AS b, s || '7' AS c FROM p, t
--
SELECT price * 1.5 AS a, n + 7 AS b, s || '7' AS c FROM p, t
