"""The lab: offline webs, replay, measures, experiments. The labels judge; no crawler sees them."""
