{% macro lance_gateway__current_timestamp() -%}
  now()
{%- endmacro %}


{# Microseconds without a zone (UTC): so are columns of snapshots, and a column with a zone takes it, too. #}
{% macro lance_gateway__snapshot_get_time() -%}
  cast(now() as timestamp(6))
{%- endmacro %}


{% macro lance_gateway__snapshot_string_as_time(timestamp) -%}
  {{ return("cast('" ~ timestamp ~ "' as timestamp(6))") }}
{%- endmacro %}


{% macro lance_gateway__current_timestamp_backcompat() -%}
  cast(now() as timestamp(6))
{%- endmacro %}
