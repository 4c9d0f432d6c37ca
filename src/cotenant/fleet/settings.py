"""Ray's settings: no usage statistics, no lowered priority, and lost nodes detected within seconds."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
"""Ray's workers run at niceness 15 by default, and tenants would inherit that."""
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}
"""By default a dead node is detected after 13 s."""
