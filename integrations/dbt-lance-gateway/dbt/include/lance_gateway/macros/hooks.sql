{# As dbt's own, without the "commit" before hooks that run outside of a transaction: each statement commits by itself. #}
{% macro run_hooks(hooks, inside_transaction=True) %}
  {% for hook in hooks | selectattr('transaction', 'equalto', inside_transaction) %}
    {% set rendered = render(hook.get('sql')) | trim %}
    {% if (rendered | length) > 0 %}
      {% call statement(auto_begin=inside_transaction) %}
        {{ rendered }}
      {% endcall %}
    {% endif %}
  {% endfor %}
{% endmacro %}

{# What every model ends with; returns what it has built. #}
{% macro finish_model(relation, grant_config) %}
  {% do apply_grants(relation, grant_config, should_revoke=False) %}
  {% do persist_docs(relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [relation]}) }}
{% endmacro %}
