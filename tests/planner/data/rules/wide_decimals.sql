Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## decimals that need more than 38 digits together
SELECT id FROM p WHERE big > CAST('0.12345' AS DECIMAL(5, 5))
--
SELECT id FROM p WHERE arrow_cast(big, 'Decimal256(76, 5)') > arrow_cast(CAST('0.12345' AS DECIMAL(5, 5)), 'Decimal256(76, 5)')

## decimals that 38 digits hold
SELECT id FROM p WHERE price > CAST('0.12345' AS DECIMAL(5, 5)) AND big = price
--
SELECT id FROM p WHERE price > CAST('0.12345' AS DECIMAL(5, 5)) AND big = price

## integers
SELECT id FROM p WHERE n > CAST('0.5' AS DECIMAL(38, 30))
--
SELECT id FROM p WHERE arrow_cast(n, 'Decimal256(76, 30)') > arrow_cast(CAST('0.5' AS DECIMAL(38, 30)), 'Decimal256(76, 30)')
