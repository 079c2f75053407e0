"""Run scheduled AI agents: no tick twice, no overlap where it must not be, no zombie writes."""
