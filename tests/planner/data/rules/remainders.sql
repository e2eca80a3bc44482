The tables are those of test_rules.py.

## decimals that may not be NULL
SELECT coalesce(price, 1) % 1 AS x, arrow_cast('1.500', 'Decimal128(18, 3)') % 1.0 AS y FROM p WHERE id % (2 - 1) = 0
--
SELECT nullif(coalesce(price, 1), NULL) % 1 AS x, nullif(arrow_cast('1.500', 'Decimal128(18, 3)'), NULL) % 1.0 AS y FROM p WHERE id % (2 - 1) = 0

## columns, other numbers, and divisors that are no constants
SELECT price % 1 AS x, coalesce(n, 1) % 1 AS y, coalesce(f, 1) % 1 AS z, coalesce(price, 1) % n AS w FROM p
--
SELECT price % 1 AS x, coalesce(n, 1) % 1 AS y, coalesce(f, 1) % 1 AS z, coalesce(price, 1) % n AS w FROM p
