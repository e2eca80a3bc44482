Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

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

## a literal beside a decimal and a double is a double
SELECT id FROM p WHERE price IN (f, 4.44)
--
SELECT id FROM p WHERE price IN (f, 4.44)

## lists and ranges
SELECT id FROM p WHERE price NOT IN (1.1, -4.44) OR price BETWEEN .5 AND 4.44
--
SELECT id FROM p WHERE price NOT IN (CAST('1.1' AS DECIMAL(2, 1)), -CAST('4.44' AS DECIMAL(3, 2))) OR price BETWEEN CAST('0.5' AS DECIMAL(1, 1)) AND CAST('4.44' AS DECIMAL(3, 2))

## constant numbers
SELECT id FROM p WHERE price = 1.1 + 3.34 OR price = CASE WHEN id = 1 THEN 1.1 ELSE 2 END
--
SELECT id FROM p WHERE price = CAST('1.1' AS DECIMAL(2, 1)) + CAST('3.34' AS DECIMAL(3, 2)) OR price = CASE WHEN id = 1 THEN CAST('1.1' AS DECIMAL(2, 1)) ELSE 2 END

## a quotient is a double
SELECT id FROM p WHERE price > 1.0 / 3
--
SELECT id FROM p WHERE price > 1.0 / 3

## more than 38 digits, compared
SELECT id FROM p WHERE big < 1234567890123456789012345678901234567890.5
--
SELECT id FROM p WHERE big < arrow_cast('1234567890123456789012345678901234567890.5', 'Decimal256(41, 1)')

## more than 38 digits, not compared
SELECT greatest(big, 1234567890123456789012345678901234567890.5) AS x FROM p
--
SELECT greatest(big, 1234567890123456789012345678901234567890.5) AS x FROM p

## aggregates, subqueries and columns of queries around
SELECT id, (SELECT count(*) FROM p AS q WHERE p.price = 4.44) FROM p GROUP BY id, price HAVING sum(price) > 4.44
--
SELECT id, (SELECT count(*) FROM p AS q WHERE p.price = CAST('4.44' AS DECIMAL(3, 2))) FROM p GROUP BY id, price HAVING sum(price) > CAST('4.44' AS DECIMAL(3, 2))

## columns of common table expressions
WITH q AS (SELECT price * 1.5 AS x FROM p) SELECT * FROM q WHERE x = 4.44
--
WITH q AS (SELECT price * CAST('1.5' AS DECIMAL(2, 1)) AS x FROM p) SELECT * FROM q WHERE x = CAST('4.44' AS DECIMAL(3, 2))

## functions and CASE
SELECT nullif(price, 4.44), coalesce(price, 0.5), CASE price WHEN 4.44 THEN 1 END, CASE WHEN n = 1 THEN price ELSE 0.5 END FROM p
--
SELECT nullif(price, CAST('4.44' AS DECIMAL(3, 2))), coalesce(price, CAST('0.5' AS DECIMAL(1, 1))), CASE price WHEN CAST('4.44' AS DECIMAL(3, 2)) THEN 1 END, CASE WHEN n = 1 THEN price ELSE CAST('0.5' AS DECIMAL(1, 1)) END FROM p

## set operations
SELECT price FROM p UNION SELECT 4.44 EXCEPT (SELECT 0.5)
--
SELECT price FROM p UNION SELECT CAST('4.44' AS DECIMAL(3, 2)) EXCEPT (SELECT CAST('0.5' AS DECIMAL(1, 1)))

## rows of VALUES are doubles by themselves
SELECT * FROM (VALUES (1.1), (4.44)) AS v(x)
--
SELECT * FROM (VALUES (1.1), (4.44)) AS v(x)

## divisors and multiples
SELECT gcd(price, 0.5) AS a, lcm(2.5, price) AS b, lcm(n, 1.1) AS c FROM p
--
SELECT gcd(price, CAST('0.5' AS DECIMAL(1, 1))) AS a, lcm(CAST('2.5' AS DECIMAL(2, 1)), price) AS b, lcm(n, CAST('1.1' AS DECIMAL(2, 1))) AS c FROM p
