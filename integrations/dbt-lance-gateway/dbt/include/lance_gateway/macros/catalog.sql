{% macro lance_gateway__list_schemas(database) %}
  {{ return(run_query("select schema_name from information_schema.schemata")) }}
{% endmacro %}


{% macro lance_gateway__check_schema_exists(information_schema, schema) %}
  {% set sql %}
    select count(*) from information_schema.schemata where schema_name = '{{ dbt.escape_single_quotes(schema) }}'
  {% endset %}
  {{ return(run_query(sql)) }}
{% endmacro %}


{% macro lance_gateway__list_relations_without_caching(schema_relation) %}
  {% set sql %}
    select table_catalog, table_name, table_schema, case table_type when 'VIEW' then 'view' else 'table' end as kind
    from information_schema.tables
    where table_schema = '{{ dbt.escape_single_quotes(schema_relation.schema) }}'
  {% endset %}
  {{ return(run_query(sql)) }}
{% endmacro %}


{# Who dropped or made a schema meanwhile is not an error: "if exists" and "if not exists" say so. #}
{% macro lance_gateway__drop_schema(relation) %}
  {% if relation.schema == 'main' %}
    {{ exceptions.raise_compiler_error("the schema 'main' can't be dropped: drop its tables and views") }}
  {% endif %}
  {{ return(default__drop_schema(relation)) }}
{% endmacro %}


{% macro lance_gateway__get_catalog(information_schema, schemas) %}
  {% set names = [] %}
  {% for schema in schemas %}
    {% do names.append("'" ~ dbt.escape_single_quotes(schema) ~ "'") %}
  {% endfor %}
  {{ return(lance_gateway__read_catalog("c.table_schema in (" ~ names | join(', ') ~ ")")) }}
{% endmacro %}


{% macro lance_gateway__get_catalog_relations(information_schema, relations) %}
  {% set conditions = [] %}
  {% for relation in relations %}
    {% set condition = "c.table_schema = '" ~ dbt.escape_single_quotes(relation.schema) ~ "'" %}
    {% if relation.identifier %}
      {% set condition = condition ~ " and c.table_name = '" ~ dbt.escape_single_quotes(relation.identifier) ~ "'" %}
    {% endif %}
    {% do conditions.append("(" ~ condition ~ ")") %}
  {% endfor %}
  {{ return(lance_gateway__read_catalog(conditions | join(' or '))) }}
{% endmacro %}


{# Views are named by one text in system.views, those of main without their schema. #}
{% macro lance_gateway__read_catalog(condition) %}
  {% set sql %}
    select
      c.table_catalog as table_database,
      c.table_schema,
      c.table_name,
      t.table_type,
      coalesce(st.comment, sv.comment) as table_comment,
      cast(null as text) as table_owner,
      c.column_name,
      c.ordinal_position as column_index,
      c.data_type as column_type,
      sc.comment as column_comment
    from information_schema.columns as c
    join information_schema.tables as t on t.table_schema = c.table_schema and t.table_name = c.table_name
    left join system.tables as st on st.table_schema = c.table_schema and st.table_name = c.table_name
    left join system.columns as sc
      on sc.table_schema = c.table_schema and sc.table_name = c.table_name and sc.column_name = c.column_name
    left join system.views as sv
      on sv.view_name = case c.table_schema when 'main' then c.table_name else c.table_schema || '.' || c.table_name end
    where {{ condition }}
    order by c.table_schema, c.table_name, c.ordinal_position
  {% endset %}
  {{ return(run_query(sql)) }}
{% endmacro %}


{# Columns have the exact types of a query, which the adapter reads. #}
{% macro lance_gateway__get_columns_in_relation(relation) %}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}
