"""Metrics, health, logs, traces and system tables of a running gateway."""
