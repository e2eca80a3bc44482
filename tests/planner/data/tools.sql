What tools generate for a database of the Postgres kind, in their shapes, and the rows or the refusal that they get.

## Tableau: the columns of a table
SELECT "orders"."id" AS "id", "orders"."customer" AS "customer", "orders"."amount" AS "amount" FROM "main"."orders" "orders" WHERE 1 = 0 LIMIT 1
--

## Tableau: the columns of custom SQL
SELECT * FROM (
SELECT id, amount FROM orders WHERE amount > 10
) "Custom SQL Query" LIMIT 0
--

## Tableau: a measure by a dimension
SELECT "orders"."status" AS "status",
  SUM("orders"."amount") AS "sum:amount:ok"
FROM "main"."orders" "orders"
GROUP BY 1
--
('open', 30.0)
('paid', 70.0)

## Tableau: the whole table in one number
SELECT COUNT(1) AS "cnt:orders:ok", SUM("orders"."amount") AS "sum:amount:ok"
FROM "main"."orders" "orders"
HAVING (COUNT(1) > 0)
--
(5, 100.0)

## Tableau: a month by truncation, and a filter on it
SELECT DATE_TRUNC('MONTH', CAST("orders"."created_at" AS TIMESTAMP)) AS "tmn:created_at:ok", COUNT(DISTINCT "orders"."customer") AS "ctd:customer:ok"
FROM "main"."orders" "orders"
WHERE (("orders"."created_at" >= (TIMESTAMP '2024-01-01 00:00:00.000')) AND ("orders"."created_at" < (TIMESTAMP '2024-03-01 00:00:00.000')))
GROUP BY 1
ORDER BY 1 ASC NULLS FIRST
--
(dt.datetime(2024, 1, 1, 0, 0), 2)
(dt.datetime(2024, 2, 1, 0, 0), 2)

## Tableau: the year as a number
SELECT CAST(EXTRACT(YEAR FROM "orders"."created_at") AS INTEGER) AS "yr:created_at:ok", AVG(CAST("orders"."amount" AS DOUBLE PRECISION)) AS "avg:amount:ok"
FROM "main"."orders" "orders"
GROUP BY 1
--
(2024, 20.0)

## Tableau: top two of a dimension
SELECT "orders"."customer" AS "customer", SUM("orders"."amount") AS "sum:amount:ok"
FROM "main"."orders" "orders"
  INNER JOIN (
  SELECT "orders"."customer" AS "customer", SUM("orders"."amount") AS "$__alias__0"
  FROM "main"."orders" "orders"
  GROUP BY 1
  ORDER BY 2 DESC, 1 ASC
  LIMIT 2
) "t0" ON (("orders"."customer" = "t0"."customer") OR (("orders"."customer" IS NULL) AND ("t0"."customer" IS NULL)))
GROUP BY 1
--
('anna', 30.0)
('berta', 40.0)

## Tableau: a calculated field with a level of detail
SELECT AVG("t0"."x_measure__0") AS "avg:Calculation_1:ok"
FROM (
  SELECT "orders"."customer" AS "customer", SUM("orders"."amount") AS "x_measure__0"
  FROM "main"."orders" "orders"
  GROUP BY 1
) "t0"
HAVING (COUNT(1) > 0)
--
(33.333333333,)

## Tableau: does the database have temporary tables
CREATE LOCAL TEMPORARY TABLE "#Tableau_1_1_Connect_CheckCreateTempTableCap" ("COL" INTEGER) ON COMMIT PRESERVE ROWS
--
refused: temporary tables

## Tableau: does the database have SELECT INTO
SELECT 1 AS "COL" INTO "#Tableau_1_2_Connect_CheckSelectIntoCap"
--
refused: INTO

## Tableau: does the database have TOP
SELECT TOP 1 "orders"."id" FROM "main"."orders" "orders"
--
refused: TOP

## Tableau: a quoted text with wildcards
SELECT "orders"."customer" AS "customer" FROM "main"."orders" "orders" WHERE (POSITION('n' IN LOWER(CAST("orders"."customer" AS TEXT))) > 0) GROUP BY 1
--
('anna',)

## JDBC pool: is the connection alive
SELECT 1
--
(1,)

## a probe that returns nothing
SELECT 1 AS one WHERE false
--

## Superset: the first rows of a table
SELECT "id" AS "id", "customer" AS "customer" FROM main.orders ORDER BY "id" LIMIT 2 OFFSET 0
--
(1, 'anna')
(2, 'anna')

## Superset: a time series
SELECT DATE_TRUNC('day', created_at) AS __timestamp, sum(amount) AS "SUM(amount)", status AS status
FROM main.orders JOIN (SELECT status AS status__, sum(amount) AS mme_inner__ FROM main.orders WHERE created_at >= CAST('2024-01-01 00:00:00.000000' AS TIMESTAMP) AND created_at < CAST('2025-01-01 00:00:00.000000' AS TIMESTAMP) GROUP BY status ORDER BY mme_inner__ DESC LIMIT 100) AS series_limit ON status = status__
WHERE created_at >= CAST('2024-01-01 00:00:00.000000' AS TIMESTAMP) AND created_at < CAST('2025-01-01 00:00:00.000000' AS TIMESTAMP)
GROUP BY DATE_TRUNC('day', created_at), status
ORDER BY "SUM(amount)" DESC
LIMIT 2
--
(dt.datetime(2024, 2, 15, 0, 0), 40.0, 'paid')
(dt.datetime(2024, 2, 1, 0, 0), 30.0, 'open')

## Superset: a time series with limited series, times as text
SELECT DATE_TRUNC('month', created_at) AS __timestamp, status AS status, COUNT(*) AS count
FROM main.orders JOIN (SELECT status AS status__, COUNT(*) AS mme_inner__
FROM main.orders
WHERE created_at >= '2024-01-01 00:00:00.000000' AND created_at < '2024-02-01 00:00:00.000000' GROUP BY status ORDER BY mme_inner__ DESC
 LIMIT 1) AS series_limit ON status = status__
WHERE created_at >= '2024-01-01 00:00:00.000000' AND created_at < '2024-02-01 00:00:00.000000' GROUP BY status, DATE_TRUNC('month', created_at) ORDER BY count DESC
 LIMIT 10
--
(dt.datetime(2024, 1, 1, 0, 0), 'paid', 2)

## Superset: a chart over a virtual dataset
SELECT customer AS customer, COUNT(*) AS count, sum(amount) AS "SUM(amount)"
FROM (SELECT o.customer, o.amount
FROM orders o
WHERE o.status = 'paid'
) AS virtual_table
GROUP BY customer
HAVING sum(amount) > 1
ORDER BY count DESC
LIMIT 1000
--
('anna', 2, 30.0)
('berta', 1, 40.0)

## Superset: values of a filter
SELECT DISTINCT status AS status FROM main.orders WHERE status IS NOT NULL ORDER BY status LIMIT 1000
--
('open',)
('paid',)

## Superset: rows in all
SELECT COUNT(*) AS rowcount FROM (SELECT customer AS customer FROM main.orders GROUP BY customer LIMIT 50000) AS rowcount_qry
--
(3,)

## Superset: the preview in SQL Lab
SELECT *
FROM orders
WHERE id = 3
LIMIT 1001
--
(3, 'berta', 'paid', 40.0, dt.datetime(2024, 2, 15, 12, 0))

## Metabase: the preview of a table
SELECT "main"."orders"."id" AS "id", "main"."orders"."customer" AS "customer", "main"."orders"."amount" AS "amount" FROM "main"."orders" ORDER BY "main"."orders"."id" ASC LIMIT 1
--
(1, 'anna', 10.0)

## Metabase: counts by week
SELECT DATE_TRUNC('week', "main"."orders"."created_at") AS "created_at", COUNT(*) AS "count" FROM "main"."orders" GROUP BY DATE_TRUNC('week', "main"."orders"."created_at") ORDER BY DATE_TRUNC('week', "main"."orders"."created_at") ASC
--
(dt.datetime(2024, 1, 1, 0, 0), 1)
(dt.datetime(2024, 1, 8, 0, 0), 2)
(dt.datetime(2024, 1, 29, 0, 0), 1)
(dt.datetime(2024, 2, 12, 0, 0), 1)

## Metabase: a question on a question
SELECT "source"."customer" AS "customer", SUM("source"."amount") AS "sum" FROM (SELECT "main"."orders"."customer" AS "customer", "main"."orders"."amount" AS "amount" FROM "main"."orders" WHERE "main"."orders"."status" = 'paid') AS "source" GROUP BY "source"."customer" ORDER BY "sum" DESC, "source"."customer" ASC LIMIT 1048575
--
('berta', 40.0)
('anna', 30.0)

## Metabase: the last thirty days
SELECT COUNT(*) AS "count" FROM "main"."orders" WHERE ("main"."orders"."created_at" >= DATE_TRUNC('day', (NOW() + INTERVAL '-30 day'))) AND ("main"."orders"."created_at" < DATE_TRUNC('day', NOW()))
--
(0,)

## Metabase: bins of a number
SELECT (FLOOR(("main"."orders"."amount" / 20.0)) * 20.0) AS "amount", COUNT(*) AS "count" FROM "main"."orders" GROUP BY (FLOOR(("main"."orders"."amount" / 20.0)) * 20.0) ORDER BY (FLOOR(("main"."orders"."amount" / 20.0)) * 20.0) ASC
--
(0.0, 2)
(20.0, 2)
(40.0, 1)

## Metabase: a fingerprint of a text column
SELECT SUBSTRING("main"."orders"."customer", 1, 1234) AS "substring1" FROM "main"."orders" ORDER BY 1 LIMIT 2
--
('anna',)
('anna',)

## Power BI: the first rows in the navigator
select "_"."id", "_"."customer", "_"."amount"
from "lance"."main"."orders" "_"
order by "_"."id"
limit 2
--
(1, 'anna', 10.0)
(2, 'anna', 20.0)

## Power BI: DirectQuery of a visual
select "_"."status" as "c1", "_"."a0" as "a0"
from
(
    select "rows"."status" as "status",
        sum("rows"."amount") as "a0"
    from
    (
        select "_"."status",
            "_"."amount"
        from "lance"."main"."orders" "_"
        where "_"."created_at" >= timestamp '2024-01-01 00:00:00' and "_"."created_at" < timestamp '2025-01-01 00:00:00'
    ) "rows"
    group by "status"
) "_"
where not "_"."a0" is null
limit 1000001
--
('open', 30.0)
('paid', 70.0)

## Power BI: a join of two tables
select "$Outer"."id" as "id", "$Inner"."customer" as "customer2"
from (select "_"."id" as "id", "_"."customer" as "customer" from "lance"."main"."orders" "_") "$Outer"
left outer join (select "_"."customer" as "customer" from "lance"."main"."orders" "_" group by "_"."customer") "$Inner" on ("$Outer"."customer" = "$Inner"."customer")
where "$Outer"."id" < 3
--
(1, 'anna')
(2, 'anna')

## Power BI: no value, as text
select count(*) as "a0" from "lance"."main"."orders" "_" where case when "_"."customer" is null then '' else "_"."customer" end <> '' and "_"."customer" like '%a' escape '\'
--
(5,)

## dbt: a generic test of uniqueness
select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
select
    id as unique_field,
    count(*) as n_records
from "lance"."main"."orders"
where id is not null
group by id
having count(*) > 1
    ) dbt_internal_test
--
(0, False, False)

## dbt: accepted values
select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
with all_values as (
    select
        status as value_field,
        count(*) as n_records
    from "lance"."main"."orders"
    group by status
)
select *
from all_values
where value_field not in (
    'paid','lost'
)
    ) dbt_internal_test
--
(1, True, True)

## dbt: relationships
with child as (
    select customer as from_field
    from "lance"."main"."orders"
    where customer is not null
),
parent as (
    select customer as to_field
    from "lance"."main"."orders"
    where status = 'paid'
)
select
    from_field
from child
left join parent
    on child.from_field = parent.to_field
where parent.to_field is null
--
('clara',)
('clara',)

## dbt: the columns of a model
select * from (
        select id, customer from orders
    ) as __dbt_sbq
    where false
    limit 0
--

## dbt: a comment before the statement
/* {"app": "dbt", "dbt_version": "1.9.0", "profile_name": "shop", "node_id": "model.shop.totals"} */
select customer, sum(amount) as total from orders group by 1 order by 1
--
('anna', 30.0)
('berta', 40.0)
('clara', 30.0)

## DBeaver: rows of a table, and their number
SELECT COUNT(*) FROM lance.main.orders
--
(5,)

## DBeaver: a filter of the grid
SELECT x.* FROM main.orders x WHERE x.customer ILIKE '%ER%' ORDER BY x.id LIMIT 200
--
(3, 'berta', 'paid', 40.0, dt.datetime(2024, 2, 15, 12, 0))

## Grafana: a time series
SELECT date_bin(INTERVAL '1 day', created_at, TIMESTAMP '2024-01-01 00:00:00') AS "time", avg(amount) AS "value" FROM orders WHERE created_at BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-31T23:59:59Z' GROUP BY 1 ORDER BY 1
--
(dt.datetime(2024, 1, 1, 0, 0), 10.0)
(dt.datetime(2024, 1, 8, 0, 0), 10.0)

## jOOQ: the first rows
select id, amount from orders where (id < 5 and amount >= cast(1.0 as double precision)) order by id desc fetch next 2 rows only
--
(4, 30.0)
(3, 40.0)

## Hibernate: a page
select o1_0.id,o1_0.customer from orders o1_0 order by o1_0.id offset 1 rows fetch first 2 rows only
--
(2, 'anna')
(3, 'berta')

## Calcite: the best groups of a join
SELECT "t"."customer", SUM("t"."amount") AS "s"
FROM (SELECT "id", "customer", "amount"
FROM "lance"."main"."orders") AS "t"
INNER JOIN (SELECT "id"
FROM "lance"."main"."orders") AS "t0" ON "t"."id" = "t0"."id"
GROUP BY "t"."customer"
ORDER BY 2 DESC NULLS FIRST
FETCH NEXT 1 ROWS ONLY
--
('berta', 40.0)

## information_schema: the tables
SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY table_name
--
('orders',)

## information_schema: the columns
SELECT column_name, ordinal_position FROM information_schema.columns WHERE table_schema = 'main' AND table_name = 'orders' ORDER BY ordinal_position LIMIT 2
--
('id', 1)
('customer', 2)

## Grafana: the health check
select 1
--
(1,)

## Grafana: a time series of the builder, with $__dateBin and $__timeRange
SELECT date_bin(interval '604800 second', created_at, timestamp '1970-01-01T00:00:00Z') as time, status, sum(amount) as amount FROM orders WHERE created_at >= '2024-01-01T00:00:00Z' AND created_at <= '2024-02-10T00:00:00Z' GROUP BY 1, status ORDER BY time, status LIMIT 50
--
(dt.datetime(2023, 12, 28, 0, 0), 'paid', 10.0)
(dt.datetime(2024, 1, 4, 0, 0), 'open', 0.0)
(dt.datetime(2024, 1, 4, 0, 0), 'paid', 20.0)
(dt.datetime(2024, 2, 1, 0, 0), 'open', 30.0)

## Grafana: $__dateBinAlias, $__timeFrom and $__timeTo
select date_bin(interval '86400 second', created_at, timestamp '1970-01-01T00:00:00Z') as created_at_binned, count(*) as n from orders where created_at >= cast('2024-01-01T00:00:00Z' as timestamp) and created_at < cast('2024-01-08T10:00:00Z' as timestamp) group by 1 order by 1
--
(dt.datetime(2024, 1, 1, 0, 0), 1)
(dt.datetime(2024, 1, 8, 0, 0), 1)

## Grafana: $__interval
select date_bin(interval '3600 second', created_at, timestamp '1970-01-01T00:00:00Z') as time from orders where id = 5
--
(dt.datetime(2024, 1, 8, 10, 0),)

## Grafana: $__timeGroupAlias of a month, and the groups of $__timeGroup
select datepart('month', created_at) as created_at_month,datepart('year', created_at) as created_at_year, count(*) as n from orders group by datepart('month', created_at),datepart('year', created_at) order by 1
--
(1, 2024, 3)
(2, 2024, 2)

## Grafana: the documented panel, whose times are nanoseconds
SELECT CAST(date_bin(interval '604800 second', created_at, timestamp '1970-01-01T00:00:00Z') AS TIMESTAMP(9)) AS time, status, sum(amount) AS amount
FROM orders WHERE created_at >= '2024-01-10T00:00:00Z' AND created_at <= '2024-02-10T00:00:00Z' GROUP BY 1, status ORDER BY time
--
(dt.datetime(2024, 2, 1, 0, 0), 'open', 30.0)
