"""The command-line door: parse, call one operation, render."""
