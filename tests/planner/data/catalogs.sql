Statements of tools over information_schema and pg_catalog, and the rows that they get from tests/planner/system/test_catalogs.py.

## jOOQ: schemas
select "pg_catalog"."pg_namespace"."nspname", "pg_catalog"."pg_description"."description" from "pg_catalog"."pg_namespace" left outer join "pg_catalog"."pg_description" on ("pg_catalog"."pg_description"."objoid" = "pg_catalog"."pg_namespace"."oid" and "pg_catalog"."pg_description"."classoid" = 'pg_namespace'::regclass) where "pg_catalog"."pg_namespace"."nspname" not in ('pg_catalog', 'system')
--
('information_schema', None)
('main', None)

## jOOQ: columns, with their types
select "c"."column_name", "c"."ordinal_position", "c"."udt_name", coalesce("c"."character_maximum_length", "c"."numeric_precision") as "length", "c"."numeric_scale", "c"."is_nullable", "c"."column_default" from "information_schema"."columns" as "c" where ("c"."table_schema" in ('main') and "c"."table_name" = 'orders') order by "c"."ordinal_position"
--
('id', 1, 'int8', 64, 0, 'NO', None)
('customer', 2, 'int4', 32, 0, 'YES', None)
('code', 3, 'varchar', 5, None, 'YES', "'x'")
('price', 4, 'numeric', 12, 2, 'YES', None)
('parts', 5, '_float4', None, None, 'YES', None)

## jOOQ: primary and unique keys
select "k"."constraint_name", "k"."table_name", "k"."column_name", "k"."ordinal_position" from "information_schema"."table_constraints" as "t" join "information_schema"."key_column_usage" as "k" on ("k"."constraint_schema" = "t"."constraint_schema" and "k"."constraint_name" = "t"."constraint_name" and "k"."table_name" = "t"."table_name") where "t"."constraint_type" in ('PRIMARY KEY', 'UNIQUE') order by 2, 4
--
('customers_pkey', 'customers', 'id', 1)
('orders_pkey', 'orders', 'id', 1)

## jOOQ: foreign keys
select "r"."constraint_name", "r"."unique_constraint_name", "f"."column_name", "f"."position_in_unique_constraint", "r"."delete_rule" from "information_schema"."referential_constraints" as "r" join "information_schema"."key_column_usage" as "f" on "f"."constraint_name" = "r"."constraint_name"
--
('orders_customer_fkey', 'customers_pkey', 'customer', 1, 'NO ACTION')

## jOOQ: checks
select "tc"."table_name", "cc"."constraint_name", "cc"."check_clause" from "information_schema"."table_constraints" as "tc" join "information_schema"."check_constraints" as "cc" using ("constraint_catalog", "constraint_schema", "constraint_name")
--
('orders', 'orders_price_check', 'price > 0')

## jOOQ: sequences, domains and enums
select "sequence_name" as n from "information_schema"."sequences" union all select "domain_name" from information_schema.domains union all select "enumlabel" from "pg_catalog"."pg_enum"
--

## what a foreign key refers to
SELECT tc.table_name, kcu.column_name, ccu.table_name AS foreign_table_name, ccu.column_name AS foreign_column_name FROM information_schema.table_constraints AS tc JOIN information_schema.key_column_usage AS kcu ON tc.constraint_name = kcu.constraint_name JOIN information_schema.constraint_column_usage AS ccu ON ccu.constraint_name = tc.constraint_name WHERE tc.constraint_type = 'FOREIGN KEY'
--
('orders', 'customer', 'customers', 'id')

## a PostgreSQL driver: tables
SELECT n.nspname AS "TABLE_SCHEM", c.relname AS "TABLE_NAME", CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM TABLE' WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END ELSE NULL END AS "TABLE_TYPE", d.description AS "REMARKS" FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid AND n.nspname LIKE 'main' AND (false OR ( c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ) OR ( c.relkind = 'v' )) ORDER BY "TABLE_TYPE","TABLE_SCHEM","TABLE_NAME"
--
('main', 'customers', 'TABLE', 'who buys')
('main', 'orders', 'TABLE', None)
('main', 'cheap', 'VIEW', None)

## a PostgreSQL driver: columns
SELECT a.attname, a.atttypid, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull, a.atttypmod, a.attlen, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typbasetype, t.typtype FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON (a.attrelid=c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid=def.adrelid AND a.attnum = def.adnum) LEFT JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relname LIKE 'orders' ORDER BY attnum
--
('id', 20, True, -1, 8, 1, None, None, 0, 'b')
('customer', 23, False, -1, 4, 2, None, None, 0, 'b')
('code', 1043, False, 9, -1, 3, "'x'", None, 0, 'b')
('price', 1700, False, 786438, -1, 4, None, None, 0, 'b')
('parts', 1021, False, -1, -1, 5, None, None, 0, 'b')

## a PostgreSQL driver: the columns of the primary key
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'orders'::regclass AND i.indisprimary
--
('id',)

## DBeaver: schemas
SELECT n.nspname, n.nspname = current_schema() AS is_current, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname
--
('information_schema', False, None)
('main', True, None)
('pg_catalog', False, None)
('system', False, None)

## DBeaver: relations of a schema
select c.relname, c.relkind, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key from pg_catalog.pg_class c left outer join pg_catalog.pg_description d on d.objoid=c.oid and d.objsubid=0 and d.classoid='pg_class'::regclass where c.relnamespace=to_regnamespace('main') and c.relkind not in ('i','I','c') order by 1
--
('cheap', 'v', None, None, None)
('customers', 'r', 'who buys', None, None)
('orders', 'r', None, None, None)

## DBeaver: databases, and who asks
SELECT db.datname, r.rolname, pg_catalog.pg_get_userbyid(db.datdba), pg_encoding_to_char(db.encoding) FROM pg_catalog.pg_database db, pg_catalog.pg_roles r WHERE datallowconn AND NOT datistemplate
--
('lance', 'anonymous', 'anonymous', 'UTF8')

## DBeaver: constraints of a table
SELECT c.conname, c.contype, t.relname AS tabrelname, rt.relname AS refrelname, pg_catalog.pg_get_constraintdef(c.oid) AS def FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid WHERE c.conrelid = 'main.orders'::regclass ORDER BY c.conname
--
('orders_customer_fkey', 'f', 'orders', 'customers', 'FOREIGN KEY (customer) REFERENCES customers(id) NOT ENFORCED')
('orders_pkey', 'p', 'orders', None, 'PRIMARY KEY (id)')
('orders_price_check', 'c', 'orders', None, 'CHECK ((price > 0))')

## psql: the columns of a table
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS adsrc, a.attnotnull FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'orders'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
--
('id', 'bigint', None, True)
('customer', 'integer', None, False)
('code', 'character varying(5)', "'x'", False)
('price', 'numeric(12,2)', None, False)
('parts', 'real[]', None, False)

## psql: relations by a pattern
SELECT n.nspname as "Schema", c.relname as "Name", pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','') AND c.relname OPERATOR(pg_catalog.~) '^(or.*)$' COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2
--
('main', 'orders', 'anonymous')

## names and oids are cast to each other
SELECT c.oid::regclass, c.oid::regclass::text || '!' AS t, 'main.orders'::regclass = c.oid AS same, CAST('orders' AS regclass)::oid = c.oid AS too, c.relnamespace::regnamespace, (SELECT typname FROM pg_type WHERE oid = 'double precision'::regtype) AS f, 'nothing'::regclass IS NULL AS gone FROM pg_class c WHERE c.relname = 'orders'
--
('orders', 'orders!', True, True, 'main', 'float8', True)

## what may be done
SELECT has_table_privilege('main.orders', 'SELECT, INSERT'), has_table_privilege(current_user, 'cheap', 'INSERT'), has_schema_privilege('main', 'USAGE'), quote_ident('A b'), pg_catalog.pg_is_in_recovery()
--
(True, False, True, '"A b"', False)

## indexes
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'main' ORDER BY 1
--
('customers', 'customers_pkey', 'CREATE UNIQUE INDEX customers_pkey ON main.customers USING btree (id)')
('orders', 'orders_pkey', 'CREATE UNIQUE INDEX orders_pkey ON main.orders USING btree (id)')

## Hibernate: which tables and sequences there are
select table_name, table_type from information_schema.tables where table_schema = current_schema() and not exists (select 1 from information_schema.sequences) order by 1
--
('cheap', 'VIEW')
('customers', 'BASE TABLE')
('orders', 'BASE TABLE')

## Superset: views and their definitions
SELECT table_name, view_definition FROM information_schema.views WHERE table_schema = 'main'
--
('cheap', 'SELECT id FROM orders WHERE price < 5')

## Metabase: which tables can be read
SELECT t.schemaname AS "schema", t.tablename AS "table", pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.tablename || '"', 'SELECT') AS "select" FROM pg_catalog.pg_tables t WHERE t.schemaname NOT LIKE 'pg_%' AND t.schemaname NOT IN ('information_schema', 'system') ORDER BY 2
--
('main', 'customers', True)
('main', 'orders', True)

## a function of another shape is refused
SELECT pg_get_constraintdef(1, true, 3)
--
refused: pg_get_constraintdef takes 1 or 2 arguments, and 3 are given

## a table that pg_catalog does not have is refused
SELECT * FROM pg_catalog.pg_clas
--
refused: Table pg_catalog.pg_clas does not exist; did you mean pg_class

## Metabase: what may be written
SELECT t.objectname, pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'update') AS "update" FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION SELECT schemaname, viewname FROM pg_catalog.pg_views) t WHERE t.schemaname = 'main' ORDER BY 1
--
('cheap', False)
('customers', True)
('orders', True)

## DBeaver: rights on columns
SELECT column_name, privilege_type FROM information_schema.column_privileges WHERE table_name = 'customers' AND grantee IN (SELECT role_name FROM information_schema.enabled_roles) ORDER BY 1, 2
--
('id', 'INSERT')
('id', 'SELECT')
('id', 'UPDATE')
('name', 'INSERT')
('name', 'SELECT')
('name', 'UPDATE')
