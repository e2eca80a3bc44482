{% macro lance_gateway__dateadd(datepart, interval, from_date_or_timestamp) -%}
  {%- set part, factor = lance_gateway__interval_of(datepart) -%}
  (cast({{ from_date_or_timestamp }} as timestamp(6))
    + cast(cast(({{ interval }}) * {{ factor }} as varchar) || ' {{ part }}' as interval))
{%- endmacro %}


{% macro lance_gateway__interval_of(datepart) %}
  {%- set parts = {
    'year': ('months', 12), 'quarter': ('months', 3), 'month': ('months', 1), 'week': ('days', 7), 'day': ('days', 1),
    'hour': ('hours', 1), 'minute': ('minutes', 1), 'second': ('seconds', 1), 'millisecond': ('milliseconds', 1),
    'microsecond': ('microseconds', 1),
  } -%}
  {%- if datepart | lower not in parts -%}
    {{ exceptions.raise_compiler_error("'" ~ datepart ~ "' is not a part of a date; there are " ~ parts | join(', ')) }}
  {%- endif -%}
  {{ return(parts[datepart | lower]) }}
{% endmacro %}


{# Counts the borders of parts between two times, as elsewhere; weeks begin on Sunday. #}
{% macro lance_gateway__datediff(first_date, second_date, datepart) -%}
  {%- set part = datepart | lower -%}
  {%- set seconds = {'week': 604800, 'day': 86400, 'hour': 3600, 'minute': 60, 'second': 1} -%}
  {%- set fractions = {'millisecond': 1000, 'microsecond': 1} -%}
  {%- if part in ('year', 'quarter', 'month') -%}
    {%- set months = {'year': 12, 'quarter': 3, 'month': 1}[part] -%}
    cast({{ lance_gateway__months_of(second_date, part) }} / {{ months }} - {{ lance_gateway__months_of(first_date, part) }} / {{ months }} as bigint)
  {%- elif part in seconds -%}
    {%- set shift = 345600 if part == 'week' else 0 -%}
    cast(
      floor((date_part('epoch', cast({{ second_date }} as timestamp(6))) + {{ shift }}) / {{ seconds[part] }})
      - floor((date_part('epoch', cast({{ first_date }} as timestamp(6))) + {{ shift }}) / {{ seconds[part] }})
      as bigint
    )
  {%- elif part in fractions -%}
    cast(
      floor(round(date_part('epoch', cast({{ second_date }} as timestamp(6))) * 1000000) / {{ fractions[part] }})
      - floor(round(date_part('epoch', cast({{ first_date }} as timestamp(6))) * 1000000) / {{ fractions[part] }})
      as bigint
    )
  {%- else -%}
    {{ exceptions.raise_compiler_error(
      "'" ~ datepart ~ "' is not a part of a date; there are year, quarter, month, " ~ (seconds | join(', ')) ~ ", " ~ (fractions | join(', '))
    ) }}
  {%- endif -%}
{%- endmacro %}


{% macro lance_gateway__months_of(date, part) -%}
  cast(
    date_part('year', date_trunc('{{ part }}', cast({{ date }} as timestamp(6)))) * 12
    + date_part('month', date_trunc('{{ part }}', cast({{ date }} as timestamp(6)))) - 1
    as bigint
  )
{%- endmacro %}


{% macro lance_gateway__date(year, month, day) -%}
  cast('{{ modules.datetime.date(year, month, day).isoformat() }}' as date)
{%- endmacro %}
