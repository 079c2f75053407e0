"""Builds everything from the settings: the only module that knows each concrete class."""
