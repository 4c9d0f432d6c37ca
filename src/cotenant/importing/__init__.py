"""Other tools' files as records: profiles, sensor logs, tables of measurements. One reader per format."""
