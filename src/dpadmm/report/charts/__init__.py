"""The charts of a report: functions from what a run's folder holds to `Chart`s."""
