"""Requests made from the OpenAPI document, sent to a real cluster."""
