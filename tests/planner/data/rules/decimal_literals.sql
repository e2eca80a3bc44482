Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, n BIGINT).

## a literal beside a decimal is exact
SELECT id FROM p WHERE price = 4.44
--
SELECT id FROM p WHERE price = CAST('4.44' AS DECIMAL(3, 2))

## a literal beside a double is a double
SELECT id FROM p WHERE f = 4.44 AND n > 0.5
--
SELECT id FROM p WHERE f = 4.44 AND n > 0.5

## a literal with an exponent is a double
SELECT id FROM p WHERE price < 4.44e0
--
SELECT id FROM p WHERE price < 4.44e0

## lists and ranges
SELECT id FROM p WHERE price NOT IN (1.1, -4.44) OR price BETWEEN .5 AND 4.44
--
SELECT id FROM p WHERE price NOT IN (CAST('1.1' AS DECIMAL(2, 1)), -CAST('4.44' AS DECIMAL(3, 2))) OR price BETWEEN CAST('0.5' AS DECIMAL(1, 1)) AND CAST('4.44' AS DECIMAL(3, 2))

## aggregates, subqueries and columns of queries around
SELECT id, (SELECT count(*) FROM p AS q WHERE p.price = 4.44) FROM p GROUP BY id, price HAVING sum(price) > 4.44
--
SELECT id, (SELECT count(*) FROM p AS q WHERE p.price = CAST('4.44' AS DECIMAL(3, 2))) FROM p GROUP BY id, price HAVING sum(price) > CAST('4.44' AS DECIMAL(3, 2))

## columns of common table expressions
WITH q AS (SELECT price * 1.5 AS x FROM p) SELECT * FROM q WHERE x = 4.44
--
WITH q AS (SELECT price * CAST('1.5' AS DECIMAL(2, 1)) AS x FROM p) SELECT * FROM q WHERE x = CAST('4.44' AS DECIMAL(3, 2))
