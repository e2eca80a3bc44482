{% materialization view, adapter='lance_gateway' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set grant_config = config.get('grants') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if existing_relation is not none and not existing_relation.is_view %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
  {% call statement('main') %}
    {{ get_create_view_as_sql(target_relation, sql) }}
  {% endcall %}

  {{ return(finish_model(target_relation, grant_config)) }}
{% endmaterialization %}
