{# Who may do what stands in the gateway's policies, which no SQL changes: a grant that is ignored would be believed. #}
{% macro lance_gateway__apply_grants(relation, grant_config, should_revoke=True) %}
  {% if grant_config %}
    {{ exceptions.raise_compiler_error(
      "'grants' of " ~ relation.render() ~ " can't be applied: rights are in the gateway's policies. Leave 'grants' out, and write a policy"
    ) }}
  {% endif %}
{% endmacro %}


{# Asked where dbt decides whether grants of an earlier build have to go: there are none. #}
{% macro lance_gateway__copy_grants() %}
  {{ return(False) }}
{% endmacro %}
