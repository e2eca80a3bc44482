{% macro lance_gateway__create_csv_table(model, agate_table) %}
  {%- set types = model['config'].get('column_types', {}) -%}
  {%- set quoting = model['config'].get('quote_columns', none) -%}
  {%- set parts = [] -%}
  {%- for name in agate_table.column_names -%}
    {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
    {%- do parts.append(adapter.quote_seed_column(name | string, quoting) ~ " " ~ type) -%}
  {%- endfor -%}
  {%- set rules = adapter.render_rules({}, [], config.get('primary_key')) -%}
  {%- set sql -%}
    create or replace table {{ this.render() }} ({{ (parts + rules.constraints) | join(', ') }}) {{ lance_gateway__table_options(False, rules.has_primary_key) }}
  {%- endset -%}
  {% call statement('_') %}
    {{ sql }}
  {% endcall %}
  {{ return(sql) }}
{% endmacro %}


{% macro lance_gateway__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {% if full_refresh %}
    {{ return(lance_gateway__create_csv_table(model, agate_table)) }}
  {% endif %}
  {% do adapter.truncate_relation(old_relation) %}
  {{ return("truncate table " ~ old_relation.render()) }}
{% endmacro %}


{# All rows are one statement. #}
{% macro lance_gateway__load_csv_rows(model, agate_table) %}
  {% set columns = get_seed_column_quoted_csv(model, agate_table.column_names) %}
  {% do adapter.insert_rows(this, columns, agate_table) %}
  {{ return("insert into " ~ this.render() ~ " (" ~ columns ~ ")") }}
{% endmacro %}
