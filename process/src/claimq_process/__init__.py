"""What every deployed process needs: settings, log lines, certificates, names. Knows no manifest and no queue."""
