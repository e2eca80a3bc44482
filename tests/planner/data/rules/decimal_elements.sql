Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## lists of decimals
SELECT array_has(l, 4.44) AS x, array_position(l, .5) AS y FROM w WHERE 4.44 = ANY(l)
--
SELECT array_has(l, CAST('4.44' AS DECIMAL(10, 2))) AS x, array_position(l, CAST('0.5' AS DECIMAL(10, 2))) AS y FROM w WHERE CAST('4.44' AS DECIMAL(10, 2)) = ANY(l)

## more digits, and other lists
SELECT l AS x, array_has(make_array(f), 4.44) AS y FROM w, p
--
SELECT l AS x, array_has(make_array(f), 4.44) AS y FROM w, p
