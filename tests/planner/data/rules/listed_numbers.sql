Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]), vectors (vec REAL[2]), lists (l BIGINT[]).

## lists of decimals
SELECT array_has(l, 4.44) AS x, array_position(l, -.5, 1) AS y, array_has(l, 1) AS z FROM w WHERE 4.440 = ANY(l)
--
SELECT array_has(l, arrow_cast('4.44', 'Decimal128(10, 2)')) AS x, array_position(l, -arrow_cast('0.5', 'Decimal128(10, 2)'), 1) AS y, array_has(l, arrow_cast('1', 'Decimal128(10, 2)')) AS z FROM w WHERE arrow_cast('4.440', 'Decimal128(11, 3)') = ANY(arrow_cast(l, 'List(nullable Decimal128(11, 3))'))

## columns beside them
SELECT array_append(l, n) AS x, array_prepend(f, l) AS y, l || l AS z FROM w, p
--
SELECT array_append(arrow_cast(l, 'List(nullable Decimal128(22, 2))'), arrow_cast(n, 'Decimal128(22, 2)')) AS x, array_prepend(f, arrow_cast(l, 'List(nullable Float64)')) AS y, l || l AS z FROM w, p

## decimals of many digits are compared with all of them
SELECT array_has(l, arrow_cast('0.1', 'Decimal128(38, 37)')) AS x FROM w
--
SELECT array_has(arrow_cast(l, 'List(nullable Decimal256(45, 37))'), arrow_cast(arrow_cast('0.1', 'Decimal128(38, 37)'), 'Decimal256(45, 37)')) AS x FROM w

## other lists beside them
SELECT w.l = [4.44, price] AS x, array_has_any(w.l, [1]) AS y, coalesce(w.l, lists.l) AS z, array_concat(w.l, vec) AS c FROM w, p, lists, vectors
--
SELECT w.l = [arrow_cast('4.44', 'Decimal128(10, 2)'), price] AS x, array_has_any(w.l, [arrow_cast('1', 'Decimal128(10, 2)')]) AS y, coalesce(arrow_cast(w.l, 'List(nullable Decimal128(22, 2))'), arrow_cast(lists.l, 'List(nullable Decimal128(22, 2))')) AS z, array_concat(arrow_cast(w.l, 'List(nullable Float64)'), arrow_cast(vec, 'List(nullable Float64)')) AS c FROM w, p, lists, vectors

## integers without a sign
SELECT v = ANY(m) AS x FROM w, lists
--
SELECT arrow_cast(v, 'Decimal128(20, 0)') = ANY(arrow_cast(m, 'List(nullable Decimal128(20, 0))')) AS x FROM w, lists

## vectors
SELECT array_has(vec, 4.44) AS x, array_has(vec, 1) AS y FROM vectors
--
SELECT array_has(vec, arrow_cast(4.44, 'Float32')) AS x, array_has(vec, 1) AS y FROM vectors

## lists of other numbers
SELECT w.l AS x, array_has(make_array(f), 4.44) AS y, array_has(lists.l, 1.5) AS z FROM w, p, lists
--
SELECT w.l AS x, array_has(make_array(f), 4.44) AS y, array_has(lists.l, 1.5) AS z FROM w, p, lists

## lists of a subquery
SELECT id FROM p WHERE [f] NOT IN (SELECT l FROM w)
--
SELECT id FROM p WHERE [f] NOT IN (SELECT arrow_cast(l, 'List(nullable Float64)') AS "l" FROM w)
