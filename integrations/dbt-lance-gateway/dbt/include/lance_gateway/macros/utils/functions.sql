{% macro lance_gateway__any_value(expression) -%}
  first_value({{ expression }})
{%- endmacro %}


{% macro lance_gateway__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- if limit_num -%}
    array_to_string(array_slice(array_agg({{ measure }} {{ order_by_clause or '' }}), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
    string_agg({{ measure }}, {{ delimiter_text }} {{ order_by_clause or '' }})
  {%- endif -%}
{%- endmacro %}


{% macro lance_gateway__safe_cast(field, type) -%}
  try_cast({{ field }} as {{ type }})
{%- endmacro %}
