{# Tables of dbt's own, which are dropped again, and tables without a key are plain: each statement is one commit. #}
{% macro lance_gateway__create_table_as(temporary, relation, sql) %}
  {%- set sql_header = config.get('sql_header', none) -%}
  {{ sql_header if sql_header is not none }}
  {%- set constraints = [] -%}
  {%- set keyed = false -%}
  {%- set contract = config.get('contract') -%}
  {%- if not temporary -%}
    {%- set enforced = contract and contract.enforced -%}
    {%- if enforced -%}
      {{ get_assert_columns_equivalent(sql) }}
      {%- set sql = get_select_subquery(sql) -%}
    {%- endif -%}
    {%- set rules = adapter.render_rules(
          model.columns if enforced else {}, model.constraints if enforced else [], config.get('primary_key')
        ) -%}
    {%- set constraints = rules.constraints -%}
    {%- set keyed = rules.has_primary_key -%}
  {%- endif %}
  create or replace table {{ relation.render() }}
    {{ "(" ~ constraints | join(', ') ~ ")" if constraints }}
    {{ lance_gateway__table_options(temporary, keyed) }}
  as (
    {{ sql }}
  )
{% endmacro %}


{% macro lance_gateway__table_options(temporary, keyed) %}
  {%- set options = {} if temporary else dict(config.get('table_options', {})) -%}
  {%- if not keyed and 'memwal' not in options and 'region_by' not in options -%}
    {%- do options.update({'memwal': false}) -%}
  {%- endif -%}
  {%- set written = [] -%}
  {%- for name, value in options.items() -%}
    {%- if value is boolean or value is number -%}
      {%- do written.append(name ~ " = " ~ (value | string | lower)) -%}
    {%- else -%}
      {%- do written.append(name ~ " = " ~ lance_gateway__quote_text(value)) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return("with (" ~ written | join(', ') ~ ")" if written else "") }}
{% endmacro %}


{% macro lance_gateway__create_view_as(relation, sql) %}
  {%- set sql_header = config.get('sql_header', none) -%}
  {{ sql_header if sql_header is not none }}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif %}
  create or replace view {{ relation.render() }} as (
    {{ sql }}
  )
{% endmacro %}


{% macro lance_gateway__get_replace_view_sql(relation, sql) %}
  {{ return(lance_gateway__create_view_as(relation, sql)) }}
{% endmacro %}


{% macro lance_gateway__get_replace_table_sql(relation, sql) %}
  {{ return(lance_gateway__create_table_as(False, relation, sql)) }}
{% endmacro %}
