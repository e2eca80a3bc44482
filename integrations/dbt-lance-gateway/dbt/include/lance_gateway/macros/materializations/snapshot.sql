{# As dbt's own, but values are named with their source. #}
{% macro lance_gateway__snapshot_merge_sql(target, source, insert_cols) %}
  {%- set columns = config.get("snapshot_table_column_names") or get_snapshot_table_column_names() -%}
  {%- set valid_to = "DBT_INTERNAL_DEST." ~ columns.dbt_valid_to -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ columns.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ columns.dbt_scd_id }}
  when matched
    {% if config.get("dbt_valid_to_current") -%}
    and ({{ equals(valid_to, config.get('dbt_valid_to_current') | trim) }} or {{ valid_to }} is null)
    {%- else -%}
    and {{ valid_to }} is null
    {%- endif %}
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    then update set {{ columns.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ columns.dbt_valid_to }}
  when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values ({{ lance_gateway__source_columns(insert_cols) }})
{% endmacro %}


{% macro lance_gateway__post_snapshot(staging_relation) %}
  {% do adapter.drop_relation(staging_relation.incorporate(type='table')) %}
{% endmacro %}
