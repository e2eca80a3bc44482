Statements and what DataFusion gets instead: names are private, and everything else means the same.

## a table gets a private name and keeps its own as alias
SELECT id FROM orders
--
SELECT id FROM "orders#1" AS "orders"

## an alias stays as it is, with AS and without
SELECT o.id, i.price FROM orders AS o, items i WHERE o.item = i.item
--
SELECT o.id, i.price FROM "orders#1" AS o, "items#1" AS i WHERE o.item = i.item

## two references to one table are told apart
SELECT count(*) FROM orders JOIN orders again ON orders.id = again.id
--
SELECT count(*) FROM "orders#1" AS "orders" JOIN "orders#2" AS again ON orders.id = again.id

## schema and catalog may qualify a table
SELECT * FROM main.orders a JOIN lance.main.items b ON a.item = b.item
--
SELECT * FROM "orders#1" AS a JOIN "items#1" AS b ON a.item = b.item

## qualified columns lose catalog and schema
SELECT main.orders.id, lance.main.orders.item, main.orders.* EXCLUDE (id, item) FROM main.orders WHERE main.orders.id > 1
--
SELECT orders.id, orders.item, orders.* EXCLUDE (id, item) FROM "orders#1" AS "orders" WHERE orders.id > 1

## an alias called main is an alias and no schema
SELECT main.id FROM orders AS main WHERE main.id = 1
--
SELECT main.id FROM "orders#1" AS main WHERE main.id = 1

## unquoted names are lower-cased and quoted ones are exact
SELECT ORDERS.ID FROM ORDERS, "Orders" WHERE orders.id <> "Orders".id
--
SELECT ORDERS.ID FROM "orders#1" AS "orders", "orders#2" AS "Orders" WHERE orders.id <> "Orders".id

## backquotes quote too
SELECT * FROM `orders` WHERE `orders`.id = 1
--
SELECT * FROM "orders#1" AS "orders" WHERE "orders".id = 1

## joins of every kind
SELECT 1 FROM orders a
LEFT JOIN items b ON a.item = b.item
RIGHT OUTER JOIN items c ON c.item = a.item
FULL JOIN items d ON d.price = c.price
LEFT SEMI JOIN items e ON a.item = e.item
LEFT ANTI JOIN items f ON a.item = f.shop
CROSS JOIN links
NATURAL JOIN (SELECT parent FROM links) l
--
SELECT 1 FROM "orders#1" AS a LEFT JOIN "items#1" AS b ON a.item = b.item RIGHT OUTER JOIN "items#2" AS c ON c.item = a.item FULL JOIN "items#3" AS d ON d.price = c.price LEFT SEMI JOIN "items#4" AS e ON a.item = e.item LEFT ANTI JOIN "items#5" AS f ON a.item = f.shop CROSS JOIN "links#1" AS "links" NATURAL JOIN (SELECT parent FROM "links#2" AS "links") AS l

## parenthesised joins
SELECT * FROM (orders o JOIN (items i CROSS JOIN links) ON o.item = i.item)
--
SELECT * FROM ("orders#1" AS o JOIN ("items#1" AS i CROSS JOIN "links#1" AS "links") ON o.item = i.item)

## an alias outside parentheses is the table's alias
SELECT o.id FROM (orders) AS o, ((items)) i, (links)
--
SELECT o.id FROM ("orders#1") AS o, (("items#1")) AS i, ("links#1" AS "links")

## a comma after a join's condition begins another table
SELECT * FROM orders o JOIN items i ON o.item IN ('a', 'b') AND o.parts[1] = 1, links
--
SELECT * FROM "orders#1" AS o JOIN "items#1" AS i ON o.item IN ('a', 'b') AND o.parts[1] = 1, "links#1" AS "links"

## derived tables
SELECT * FROM (SELECT id FROM orders) x, (VALUES (1), (2)) v, VALUES (3), (4) AS w(n), items
--
SELECT * FROM (SELECT id FROM "orders#1" AS "orders") AS x, (VALUES (1), (2)) AS v, (VALUES (3), (4)) AS w(n), "items#1" AS "items"

## column aliases of a table
SELECT a FROM links AS l(a, b)
--
SELECT a FROM "links#1" AS l(a, b)

## a CTE hides a table of the same name, but not inside itself
WITH orders AS (SELECT id FROM orders WHERE id > 1) SELECT * FROM orders
--
WITH orders AS (SELECT id FROM "orders#1" AS "orders" WHERE id > 1) SELECT * FROM orders

## later CTEs see earlier ones
WITH a AS (SELECT id FROM orders), b (n) AS (SELECT id FROM a), orders AS (SELECT n FROM b) SELECT * FROM orders, a
--
WITH a AS (SELECT id FROM "orders#1" AS "orders"), b(n) AS (SELECT id FROM a), orders AS (SELECT n FROM b) SELECT * FROM orders, a

## a schema-qualified name is never a CTE
WITH orders AS (SELECT 1 AS id) SELECT * FROM orders, main.orders AS base
--
WITH orders AS (SELECT 1 AS id) SELECT * FROM orders, "orders#1" AS base

## a CTE ends with its query
SELECT * FROM (WITH orders AS (SELECT 7 AS id) SELECT id FROM orders) x JOIN orders ON x.id = orders.id
--
SELECT * FROM (WITH orders AS (SELECT 7 AS id) SELECT id FROM orders) AS x JOIN "orders#1" AS "orders" ON x.id = orders.id

## a nested CTE of the same name is renamed, since DataFusion refuses it
WITH c AS (SELECT 1 AS n) SELECT * FROM (WITH c AS (SELECT n + 1 AS n FROM c) SELECT c.n FROM c) AS x, c
--
WITH c AS (SELECT 1 AS n) SELECT * FROM (WITH "c#cte2" AS (SELECT n + 1 AS n FROM c) SELECT c.n FROM "c#cte2" AS "c") AS x, c

## a recursive CTE sees itself in its last branch
WITH RECURSIVE tree AS (SELECT child FROM links WHERE parent = 1 UNION ALL SELECT l.child FROM links l JOIN tree ON l.parent = tree.child) SELECT child FROM tree
--
WITH RECURSIVE tree AS (SELECT child FROM "links#1" AS "links" WHERE parent = 1 UNION ALL SELECT l.child FROM "links#2" AS l JOIN tree ON l.parent = tree.child) SELECT child FROM tree

## a recursive CTE may start from the table of its own name
WITH RECURSIVE links AS (SELECT child FROM links UNION ALL SELECT child + 10 FROM links WHERE child < 5) SELECT child FROM links
--
WITH RECURSIVE links AS (SELECT child FROM "links#1" AS "links" UNION ALL SELECT child + 10 FROM links WHERE child < 5) SELECT child FROM links

## subqueries in every clause
SELECT (SELECT max(id) FROM orders), CASE WHEN o.id > (SELECT min(parent) FROM links) THEN 1 END
FROM orders o
WHERE o.id IN (SELECT id FROM orders) AND EXISTS (SELECT 1 FROM items i WHERE i.item = o.item) OR o.qty > (SELECT min(qty) FROM orders WHERE item = o.item)
GROUP BY o.id HAVING count(*) = (SELECT count(*) FROM links WHERE parent = 2)
ORDER BY o.id, (SELECT max(child) FROM links)
--
SELECT (SELECT max(id) FROM "orders#1" AS "orders"), CASE WHEN o.id > (SELECT min(parent) FROM "links#1" AS "links") THEN 1 END FROM "orders#2" AS o WHERE o.id IN (SELECT id FROM "orders#3" AS "orders") AND EXISTS(SELECT 1 FROM "items#1" AS i WHERE i.item = o.item) OR o.qty > (SELECT min(qty) FROM "orders#4" AS "orders" WHERE item = o.item) GROUP BY o.id HAVING count(*) = (SELECT count(*) FROM "links#2" AS "links" WHERE parent = 2) ORDER BY o.id, (SELECT max(child) FROM "links#3" AS "links")

## set operations
SELECT id FROM orders UNION ALL (SELECT id FROM orders EXCEPT SELECT child FROM links) INTERSECT SELECT parent FROM links
--
SELECT id FROM "orders#1" AS "orders" UNION ALL ((SELECT id FROM "orders#2" AS "orders" EXCEPT SELECT child FROM "links#1" AS "links") INTERSECT SELECT parent FROM "links#2" AS "links")

## FROM may come first
FROM orders SELECT id WHERE id > 1
--
SELECT id FROM "orders#1" AS "orders" WHERE id > 1

## FROM inside functions names no table
SELECT extract(year FROM day), substring(item FROM 2), trim(both 'x' FROM item), overlay(item PLACING 'x' FROM 1) FROM orders
--
SELECT EXTRACT(YEAR FROM day), SUBSTRING(item FROM 2), TRIM(BOTH 'x' FROM item), OVERLAY(item PLACING 'x' FROM 1) FROM "orders#1" AS "orders"

## IS DISTINCT FROM names no table
SELECT * FROM orders WHERE (item IS DISTINCT FROM 'nut') AND (qty IS NOT DISTINCT FROM 20)
--
SELECT * FROM "orders#1" AS "orders" WHERE (item IS DISTINCT FROM 'nut') AND (qty IS NOT DISTINCT FROM 20)

## SELECT DISTINCT and FROM
SELECT DISTINCT item FROM orders
--
SELECT DISTINCT item FROM "orders#1" AS "orders"

## table functions are left alone
SELECT * FROM generate_series(1, 3) AS g(n) JOIN orders ON g.n = orders.id, unnest([1, 2]) u
--
SELECT * FROM generate_series(1, 3) AS g(n) JOIN "orders#1" AS "orders" ON g.n = orders.id, UNNEST([1, 2]) AS u

## arguments of table functions may hold subqueries
SELECT * FROM orders, unnest((SELECT parts FROM orders LIMIT 1))
--
SELECT * FROM "orders#1" AS "orders", UNNEST((SELECT parts FROM "orders#2" AS "orders" LIMIT 1))

## lateral subqueries
SELECT o.id, x.n FROM orders o, LATERAL (SELECT o.id + i.price AS n FROM items i) x
--
SELECT o.id, x.n FROM "orders#1" AS o, LATERAL (SELECT o.id + i.price AS n FROM "items#1" AS i) AS x

## strings, comments and quoted names hold no SQL
SELECT 'FROM orders', "item" /* FROM orders /* nested */ ? */ AS "FROM orders" -- FROM orders
FROM orders WHERE item = 'it''s $1 ?' OR item = E'\' FROM orders' OR item = $$FROM orders$$
--
SELECT 'FROM orders', "item" AS "FROM orders" FROM "orders#1" AS "orders" WHERE item = 'it''s $1 ?' OR item = e''' FROM orders' OR item = 'FROM orders'

## struct and map literals
SELECT {item: 1, b: [id, 2]} FROM orders
--
SELECT STRUCT(1 AS item, [id, 2] AS b) FROM "orders#1" AS "orders"

## DataFusion's own syntax survives
SELECT * EXCLUDE (qty), parts[1:2] FROM orders QUALIFY row_number() OVER (ORDER BY id) = 1
--
SELECT * EXCLUDE (qty), parts[1:2] FROM "orders#1" AS "orders" QUALIFY row_number() OVER (ORDER BY id) = 1

## group by all and filtered aggregates
SELECT item, count(*) FILTER (WHERE qty > 1) FROM orders GROUP BY ALL
--
SELECT item, count(*) FILTER(WHERE qty > 1) FROM "orders#1" AS "orders" GROUP BY ALL

## union by name
SELECT * FROM orders UNION ALL BY NAME SELECT * FROM orders
--
SELECT * FROM "orders#1" AS "orders" UNION ALL BY NAME SELECT * FROM "orders#2" AS "orders"

## a name with capitals gets a private name that needs no quotes
SELECT * FROM "Orders" x, orders y, "Orders"
--
SELECT * FROM "orders#1" AS x, "orders#2" AS y, "orders#3" AS "Orders"

## keywords as column names
SELECT o.join FROM (SELECT id AS join, id AS "order" FROM orders) o WHERE o.order = o.join
--
SELECT o.join FROM (SELECT id AS join, id AS "order" FROM "orders#1" AS "orders") AS o WHERE o.order = o.join

## an implicit alias is not a keyword that goes on
SELECT * FROM orders LEFT JOIN items ON true WHERE 1 = 1
--
SELECT * FROM "orders#1" AS "orders" LEFT JOIN "items#1" AS "items" ON TRUE WHERE 1 = 1

## a trailing semicolon and comments are fine
SELECT * FROM orders; -- done
--
SELECT * FROM "orders#1" AS "orders"

## parameters by position
SELECT id + ? FROM orders WHERE item = ? AND id IN (?, ?) LIMIT ?
--
SELECT id + $1 FROM "orders#1" AS "orders" WHERE item = $2 AND id IN ($3, $4) LIMIT $5 

## parameters by number
SELECT $2 FROM orders WHERE id=$1 AND qty=-$1
--
SELECT $2 FROM "orders#1" AS "orders" WHERE id = $1 AND qty = -$1 

## a cast parameter
SELECT ?::int, id-? FROM orders
--
SELECT CAST($1 AS INT), id - $2 FROM "orders#1" AS "orders"

## a view becomes a derived table
SELECT r.id FROM recent r
--
SELECT r.id FROM (SELECT * FROM "orders#1" AS "orders" WHERE id > 2) AS r

## views of views, with CTEs that hide tables inside them
SELECT * FROM both
--
SELECT * FROM (SELECT r.id, p.price FROM (SELECT * FROM "orders#1" AS "orders" WHERE id > 2) AS r JOIN (WITH orders AS (SELECT item, price FROM "items#1" AS "items") SELECT * FROM orders WHERE price > 2) AS p ON r.item = p.item) AS "both"

## a view twice, and its own comment at the end
SELECT * FROM recent, recent AS other
--
SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE id > 2) AS "recent", (SELECT * FROM "orders#2" AS "orders" WHERE id > 2) AS other

## a CTE of the same name as a table inside a view does not reach into it
WITH orders AS (SELECT 1 AS id) SELECT * FROM recent, orders
--
WITH orders AS (SELECT 1 AS id) SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE id > 2) AS "recent", orders

## a view's CTE does not collide with the statement's
WITH orders AS (SELECT 1 AS id) SELECT * FROM pricey, orders
--
WITH orders AS (SELECT 1 AS id) SELECT * FROM (WITH "orders#cte2" AS (SELECT item, price FROM "items#1" AS "items") SELECT * FROM "orders#cte2" AS "orders" WHERE price > 2) AS "pricey", orders

## explain
EXPLAIN SELECT * FROM orders
--
EXPLAIN SELECT * FROM "orders#1" AS "orders"

## explain analyze
EXPLAIN ANALYZE VERBOSE SELECT * FROM orders
--
EXPLAIN ANALYZE VERBOSE SELECT * FROM "orders#1" AS "orders"

## explain in a format
EXPLAIN FORMAT TREE WITH a AS (SELECT * FROM orders) SELECT * FROM a
--
EXPLAIN FORMAT TREE WITH a AS (SELECT * FROM "orders#1" AS "orders") SELECT * FROM a

## describe a table
DESCRIBE main.Orders
--
DESCRIBE "orders#1"

## describe a view
DESC recent
--
DESCRIBE SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE id > 2) AS "recent"

## describe a query
DESCRIBE SELECT id FROM orders
--
DESCRIBE SELECT id FROM "orders#1" AS "orders"

## tables of information_schema and pg_catalog have leaves of their own
SELECT table_name FROM information_schema.tables JOIN lance.information_schema.columns USING (table_name)
--
SELECT "tables"."table_name" AS "table_name" FROM "information_schema#tables" AS "tables" JOIN "information_schema#columns" AS "columns" USING (table_name)

## tables of functions and settings are DataFusion's
SELECT routine_name, i.name FROM information_schema.routines, lance.information_schema.df_settings AS i
--
SELECT routine_name, i.name FROM information_schema.routines, information_schema.df_settings AS i

## tables of pg_catalog are found without their schema
SELECT pg_catalog.pg_class.relname, n.nspname FROM pg_catalog.pg_class JOIN pg_namespace n ON n.oid = pg_class.relnamespace
--
SELECT pg_class.relname, n.nspname FROM "pg_catalog#pg_class" AS "pg_class" JOIN "pg_catalog#pg_namespace" AS n ON n.oid = pg_class.relnamespace

## words of PostgreSQL are said in those of DataFusion
SELECT pg_catalog.format_type(a.atttypid, ?), a.attrelid::regclass, CAST(? AS regclass) AS r FROM pg_attribute a WHERE a.attname::name OPERATOR(pg_catalog.~) '^a' COLLATE pg_catalog.default
--
SELECT format_type_2(a.atttypid, CAST($1 AS BIGINT)) AS "format_type", regclass_name_1(a.attrelid) AS "attrelid", to_regclass_1($2) AS r FROM "pg_catalog#pg_attribute" AS a WHERE CAST(a.attname AS VARCHAR) ~ '^a'

## show tables
SHOW TABLES
--
SELECT table_catalog, table_schema, table_name, table_type FROM "information_schema#tables" AS "tables" WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'system') ORDER BY 2, 3

## who asks is a constant
SELECT current_user, upper(current_role) AS r FROM orders WHERE item <> session_user ORDER BY current_user
--
SELECT 'anonymous' AS "current_user", upper('anonymous') AS r FROM "orders#1" AS "orders" WHERE item <> 'anonymous' ORDER BY 'anonymous'

## a private name that a CTE has taken is not used
WITH "orders#1" AS (SELECT 1 AS id) SELECT * FROM "orders#1", orders
--
WITH "orders#1" AS (SELECT 1 AS id) SELECT * FROM "orders#1", "orders#2" AS "orders"

## empty projections and unusual whitespace
SELECT
	count(*)FROM"orders"WHERE(id)IN(SELECT(id)FROM orders)
--
SELECT count(*) FROM "orders#1" AS "orders" WHERE (id) IN (SELECT (id) FROM "orders#2" AS "orders")

## names that touch stay apart
SELECT x.id FROM orders"x"
--
SELECT x.id FROM "orders#1" AS "x"

## table functions are found whatever their capitals
SELECT g.value, o.id FROM Generate_Series(1, 2) AS g JOIN orders o ON o.id = g.value
--
SELECT g.value, o.id FROM generate_series(1, 2) AS g JOIN "orders#1" AS o ON o.id = g.value

## a recursive CTE may name its columns
WITH RECURSIVE up(id, way) AS (SELECT child, 1 FROM links WHERE parent = 1 -- its children
UNION ALL SELECT l.child, way + 1 FROM links l JOIN up ON l.parent = up.id), few (n) AS (SELECT id FROM up) SELECT n, up.way FROM few JOIN up ON n = up.id
--
WITH RECURSIVE up(id, way) AS (SELECT child, 1 FROM "links#1" AS "links" WHERE parent = 1 UNION ALL SELECT l.child, way + 1 FROM "links#2" AS l JOIN up ON l.parent = up.id), few(n) AS (SELECT id FROM up) SELECT n, up.way FROM few JOIN up ON n = up.id

## a recursive CTE may begin with values
WITH RECURSIVE r (n) AS (VALUES (1), (10) UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r
--
WITH RECURSIVE r(n) AS (SELECT * FROM (VALUES (1), (10)) AS _values UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r

## marks of pipes in texts, names and comments
SELECT '|>' AS x, id AS "a |> b" FROM orders -- |> WHERE
--
SELECT '|>' AS x, id AS "a |> b" FROM "orders#1" AS "orders"
