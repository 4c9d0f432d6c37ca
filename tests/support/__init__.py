"""Shared by several test folders."""
