"""What users do with a collection: status, why, label, export, verify, merge."""
