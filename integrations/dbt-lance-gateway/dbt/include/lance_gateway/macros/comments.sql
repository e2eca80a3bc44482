{# A statement each: COMMENT ON names one thing, and columns of views have none. #}
{% macro lance_gateway__persist_docs(relation, model, for_relation, for_columns) %}
  {% if for_relation and config.persist_relation_docs() and model.description %}
    {% do run_query("comment on " ~ relation.type ~ " " ~ relation.render() ~ " is " ~ lance_gateway__quote_text(model.description)) %}
  {% endif %}
  {% if for_columns and config.persist_column_docs() and model.columns and not relation.is_view %}
    {% set existing = adapter.get_columns_in_relation(relation) | map(attribute="name") | list %}
    {% set documented = validate_doc_columns(relation, model.columns, existing) %}
    {% for name in documented %}
      {% set column = documented[name] %}
      {% if column.description %}
        {% set quoted = adapter.quote(name) if column.quote else name %}
        {% do run_query("comment on column " ~ relation.render() ~ "." ~ quoted ~ " is " ~ lance_gateway__quote_text(column.description)) %}
      {% endif %}
    {% endfor %}
  {% endif %}
{% endmacro %}


{% macro lance_gateway__quote_text(text) %}
  {{ return("'" ~ dbt.escape_single_quotes(text) ~ "'") }}
{% endmacro %}
