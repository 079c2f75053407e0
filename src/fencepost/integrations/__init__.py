"""Ready pieces for programs that are built on other libraries."""
