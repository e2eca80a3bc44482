Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## arrays that are written out
SELECT id FROM p WHERE price = ANY (ARRAY[1.1, 4.44]) AND price <> ALL (make_array(9.95))
--
SELECT id FROM p WHERE price IN (1.1, 4.44) AND price NOT IN (9.95)

## other comparisons
SELECT id FROM p WHERE price > ANY (SELECT f FROM p) AND price IN (1, 2)
--
SELECT id FROM p WHERE price > ANY (SELECT f FROM p) AND price IN (1, 2)

## vectors that get an element
SELECT array_append(vec, 1) AS a, list_prepend(NULL, vec) AS b, array_append(l, 1) AS c, array_append([1], 1) AS d FROM vectors, lists
--
SELECT array_append(coalesce(arrow_cast(vec, 'List(nullable Float32)'), arrow_cast([], 'List(nullable Float32)')), 1) AS a, list_prepend(NULL, coalesce(arrow_cast(vec, 'List(nullable Float32)'), arrow_cast([], 'List(nullable Float32)'))) AS b, array_append(coalesce(l, arrow_cast([], 'List(nullable Int64)')), 1) AS c, array_append([1], 1) AS d FROM vectors, lists

## operators
SELECT l || m || 1 AS a, 1 || l AS b, 'a' || l[1] AS c FROM lists
--
SELECT array_append(coalesce(array_concat(l, m), arrow_cast([], 'List(nullable Int64)')), 1) AS a, array_prepend(1, coalesce(l, arrow_cast([], 'List(nullable Int64)'))) AS b, 'a' || l[1] AS c FROM lists

## lists of rows
SELECT id = ANY (l) AS a, NOT (id = ANY (l)) AS b, id <> ALL (l) AS c FROM lists WHERE id = ANY (l) AND id > ANY (l)
--
SELECT NOT id <> ALL(l) AS a, NOT (NOT id <> ALL(l)) AS b, id <> ALL(l) AS c FROM lists WHERE id = ANY(l) AND id > ANY(l)
