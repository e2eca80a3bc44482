{# The new table takes the place of the old one in one step. #}
{% materialization table, adapter='lance_gateway' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set grant_config = config.get('grants') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if existing_relation is not none and existing_relation.is_view %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
  {% call statement('main') %}
    {{ get_create_table_as_sql(False, target_relation, sql) }}
  {% endcall %}

  {% do create_indexes(target_relation) %}
  {{ return(finish_model(target_relation, grant_config)) }}
{% endmaterialization %}
