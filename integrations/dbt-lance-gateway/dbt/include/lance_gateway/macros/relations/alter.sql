{% macro lance_gateway__drop_table(relation) -%}
  drop table if exists {{ relation.render() }}
{%- endmacro %}


{% macro lance_gateway__drop_view(relation) -%}
  drop view if exists {{ relation.render() }}
{%- endmacro %}


{# One change a statement. #}
{% macro lance_gateway__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% for column in add_columns or [] %}
    {% do run_query("alter table " ~ relation.render() ~ " add column " ~ column.quoted ~ " " ~ column.expanded_data_type) %}
  {% endfor %}
  {% for column in remove_columns or [] %}
    {% do run_query("alter table " ~ relation.render() ~ " drop column " ~ column.quoted) %}
  {% endfor %}
{% endmacro %}


{% macro lance_gateway__alter_column_type(relation, column_name, new_column_type) %}
  {% do run_query(
    "alter table " ~ relation.render() ~ " alter column " ~ adapter.quote(column_name) ~ " type " ~ new_column_type
  ) %}
{% endmacro %}


{# An index: columns, and optionally name, type (BTREE by default) and options. #}
{% macro lance_gateway__get_create_index_sql(relation, index_dict) %}
  {%- set written = [] -%}
  {%- for name, value in index_dict.get('options', {}).items() -%}
    {%- do written.append(
      name ~ " = " ~ ((value | string | lower) if value is boolean or value is number else lance_gateway__quote_text(value))
    ) -%}
  {%- endfor -%}
  create index {{ index_dict.get('name', '') }} on {{ relation.render() }}
    using {{ index_dict.get('type', 'btree') }} ({{ index_dict['columns'] | join(', ') }})
    {{ "with (" ~ written | join(', ') ~ ")" if written }}
{% endmacro %}
