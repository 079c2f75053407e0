"""The gate of a service that is reached by HTTP: it compares the fence of each request, itself or through a proxy."""
