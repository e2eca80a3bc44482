{# New rows are computed into a table of dbt's own, which is dropped at the end. A full refresh replaces the table in one step. #}
{% materialization incremental, adapter='lance_gateway' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set temp_relation = make_temp_relation(target_relation) -%}
  {%- set grant_config = config.get('grants') -%}
  {%- set builds_anew = existing_relation is none or existing_relation.is_view or should_full_refresh() -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- set write_rows = adapter.get_incremental_strategy_macro(context, config.get('incremental_strategy') or 'default') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if builds_anew %}
    {% if existing_relation is not none and existing_relation.is_view %}
      {% do adapter.drop_relation(existing_relation) %}
    {% endif %}
    {% call statement('main') %}
      {{ get_create_table_as_sql(False, target_relation, sql) }}
    {% endcall %}
    {% do create_indexes(target_relation) %}
  {% else %}
    {% do run_query(get_create_table_as_sql(True, temp_relation, sql)) %}
    {% set contract = config.get('contract') %}
    {% if not contract or not contract.enforced %}
      {% do adapter.expand_target_column_types(from_relation=temp_relation, to_relation=target_relation) %}
    {% endif %}
    {% set columns = process_schema_changes(on_schema_change, temp_relation, existing_relation) %}
    {% if not columns %}
      {% set columns = adapter.get_columns_in_relation(existing_relation) %}
    {% endif %}
    {% call statement('main') %}
      {{ write_rows({
        'target_relation': target_relation,
        'temp_relation': temp_relation,
        'unique_key': config.get('unique_key'),
        'dest_columns': columns,
        'incremental_predicates': config.get('predicates', none) or config.get('incremental_predicates', none),
      }) }}
    {% endcall %}
    {% do adapter.drop_relation(temp_relation) %}
  {% endif %}

  {{ return(finish_model(target_relation, grant_config)) }}
{% endmaterialization %}
